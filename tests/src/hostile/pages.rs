//! A forged cache of pages: a kernel writes to the words of frames and mappings, by which the host writes pages to files and takes files back.
#![expect(unsafe_code, reason = "what a hostile kernel does")]

use std::fs::File;

use gpufs_core::session::FileIndex;
use gpufs_core::word::DeviceWord64;
use gpufs_device::Fs;
use gpufs_device::file::Descriptor;
use gpufs_device::view::{Mapping, MappingMut};
use gpufs_host::Session;

use super::{Attempt, Expected, Seen, World};

const PAGE: u32 = 4096;
/// READY and DIRTY, as a frame's word has them.
const DIRTY: u64 = 2 << 51 | 1 << 48;

/// The words of a frame (`gpufs_core::cache::Frame`).
#[repr(C, align(32))]
struct Words {
    state: DeviceWord64,
    key: DeviceWord64,
    /// The valid bytes in the lower 24 bits.
    edition: DeviceWord64,
}

const _: () = assert!(size_of::<Words>() == size_of::<gpufs_core::cache::Frame>());

fn frames(fs: Fs) -> &'static [Words] {
    let cache = &crate::tables_of(fs).cache;
    // SAFETY:
    // - as many frames of words lie there, as long as the session, which waits for this kernel
    unsafe { std::slice::from_raw_parts(cache.frames.cast(), cache.frames().len()) }
}

/// A session of eight frames. Mapped are a file that kernels may write, of two pages, and one of the host's for reading.
struct Mapped {
    session: Session,
    own: MappingMut,
    others: Mapping,
}

impl Mapped {
    fn new(world: &World) -> Option<Self> {
        let mut session = world.another_with(|builder| builder.cache(8 * PAGE as usize).cache_page(PAGE));
        let path = world.scene.path("inside/pages");
        std::fs::write(&path, vec![1; 2 * PAGE as usize]).ok()?;
        let own = session.map_mut(File::options().read(true).write(true).open(path).ok()?).ok()?;
        let others = session.map(File::open(world.scene.path("outside/canary")).ok()?).ok()?;
        Some(Self { session, own, others })
    }
    /// Brings a page of each, and forges what `forge` does.
    fn forge(&mut self, forge: impl Fn(Fs) + Sync) -> bool {
        let (own, others) = (self.own, self.others);
        let ran = self.session.run(crate::lanes(1), |fs| {
            let stored = fs.view_mut::<u64, _>(own, 0, 1, |view| view.set(0, 7));
            let seen = fs.view::<u8, _>(others, 0, 1, |view| view.get(0));
            assert!(matches!((stored, seen), (Ok(Ok(())), Ok(Ok(_)))), "{stored:?}, {seen:?}");
            forge(fs);
        });
        // What could not be written is no matter here.
        ran.is_ok()
    }
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    keys(&mut attempts);
    mappings(&mut attempts);
    attempts.push(Attempt::new("forged counters of the cache", "", Expected::Own, |world| {
        let Some(mut mapped) = Mapped::new(world) else { return Seen::Silent };
        mapped.forge(|fs| {
            for set in crate::tables_of(fs).cache.sets() {
                for count in [&set.hits, &set.misses, &set.evictions, &set.write_backs, &set.waits] {
                    count.set(u64::MAX);
                }
            }
        });
        let _ = mapped.session.run(crate::lanes(1), |_| ());
        Seen::Harmless(format!("{:?}", mapped.session.cache_statistics()))
    }));
    attempts
}

/// What the host writes, and where to.
fn keys(attempts: &mut Vec<Attempt>) {
    let page = |mapping: u64, page: u64| (mapping + 1) << 40 | page;
    let keys = [
        ("of the other file", page(1, 0)),
        ("beyond the other file", page(1, 9)),
        ("of no mapping", page(77, 0)),
        ("of none that can be", u64::MAX),
        ("of no page", 0),
        ("far behind its file", page(0, (1 << 40) - 1)),
    ];
    for (name, key) in keys {
        for valid in [PAGE, u32::MAX] {
            attempts.push(Attempt::new(
                "forged frames of the cache",
                format!("{name}, {valid} bytes"),
                Expected::Own,
                move |world| {
                    let Some(mut mapped) = Mapped::new(world) else { return Seen::Silent };
                    let ended = mapped.forge(|fs| {
                        for frame in frames(fs) {
                            frame.key.set(key);
                            frame.edition.set(valid.into());
                            frame.state.publish(DIRTY);
                        }
                    });
                    drop(mapped);
                    Seen::Harmless(format!("synchronized: {ended}"))
                },
            ));
        }
    }
    for (name, state) in [("everything", u64::MAX), ("writing", 2 << 51 | 1 << 49), ("filling", 1 << 51)] {
        attempts.push(Attempt::new("forged frames of the cache", name, Expected::Own, move |world| {
            let Some(mut mapped) = Mapped::new(world) else { return Seen::Silent };
            let ended = mapped.forge(|fs| frames(fs).iter().for_each(|frame| frame.state.publish(state)));
            drop(mapped);
            Seen::Harmless(format!("synchronized: {ended}"))
        }));
    }
}

/// Which files the host takes back, and which entries it takes for free.
fn mappings(attempts: &mut Vec<Attempt>) {
    attempts.push(Attempt::new("forged mappings", "of another file, taken back", Expected::Own, |world| {
        let Some(mut mapped) = Mapped::new(world) else { return Seen::Silent };
        let given = File::open(world.scene.path("inside/sub/file")).expect("a file of the scene");
        let Ok(FileIndex(given)) = mapped.session.register_file(given) else { return Seen::Silent };
        mapped.forge(|fs| crate::tables_of(fs).cache.mappings().iter().for_each(|one| one.file.set(given)));
        let taken = mapped.session.unmap_mut(mapped.own);
        let mut read = Err(gpufs_core::Errno::IO);
        let result = std::sync::Mutex::new(&mut read);
        let _ = mapped.session.run(crate::lanes(1), |fs| {
            **result.lock().expect("one lane") = fs.pread(Descriptor(given), &mut [0; 4], 0);
        });
        match (taken, read) {
            (Ok(()), Ok(_)) => Seen::Harmless("the mapped file was taken back".into()),
            (taken, read) => Seen::Harm(format!("another file was taken back: {taken:?}, {read:?}")),
        }
    }));
    attempts.push(Attempt::new("forged mappings", "all in use, or none", Expected::Own, |world| {
        let Some(mut mapped) = Mapped::new(world) else { return Seen::Silent };
        for generation in [u32::MAX, 0] {
            mapped.forge(|fs| {
                let all = crate::tables_of(fs).cache.mappings();
                all.iter().skip(2).for_each(|one| one.generation.set(generation));
            });
            let file = File::open(world.scene.path("inside/sub/file")).expect("a file of the scene");
            match mapped.session.map(file).map(|mapping| mapped.session.unmap(mapping)) {
                Ok(Ok(())) => {}
                other => return Seen::Harm(format!("the host maps nothing more: {other:?}")),
            }
        }
        Seen::Harmless("mapped and taken back".into())
    }));
}
