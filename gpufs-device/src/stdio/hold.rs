//! `flockfile(3)`, `ftrylockfile(3)`, `funlockfile(3)`: a lane keeps a stream for several calls ([R-12]).
//!
//! The lock stays taken between the calls, so the fast paths find the stream closed and pay nothing for this. Calls of other lanes wait in the
//! queue of the lock, also those of the holder's own warp: lanes that call together are grouped by whether they keep the stream
//! ([`File::key`]), and the groups do not wait for each other. Where the lanes of a warp run in lockstep that would be for ever: a lane that
//! keeps a stream does not run while others of its warp wait. There the warp keeps it, and its lanes share it, call by call.
//! [`File::locked`] is the form that is one lane's everywhere.

use gpufs_core::failures::counted;
use gpufs_core::{Call, Errno};

use super::File;
use super::lock::{LockedStream, is_kept, try_with_lock, with_lock, with_ticket};
use crate::warp::{Lanes, Machine, Warp, identity};

/// In a group's key: the group keeps the stream. Above every index.
const KEPT: u64 = 1 << 31;

impl File {
    /// Keeps the stream for the calling lane until [`File::funlockfile`], as `flockfile(3)`: other lanes' calls on it wait, this lane's
    /// do not. It may be called again, and then as often `funlockfile`. Lanes that call together get the stream in lane order, each when
    /// the one before has let it go. `fclose` ends it, and so does the host's `synchronize` when the kernels have ended; a lane that ends
    /// without keeps the other lanes of its kernels waiting, until the session's deadline if it has one.
    ///
    /// Where the lanes of a warp run in lockstep (AMD's GPUs), the stream is kept by the warp: calls of its lanes do not wait, and each is one
    /// unit by itself. [`File::locked`] does on every machine what this does for a lane.
    ///
    /// # Errors
    /// `EBADF` if the stream is closed.
    pub fn flockfile(self) -> Result<(), Errno> {
        let inside = self.enter()?;
        let kept = Lanes::calling(&inside, Call::Flockfile).grouped(self.key(), |group| {
            if !Machine::INDEPENDENT_LANES || is_kept(self, group) || Machine::is_host() {
                return with_lock(self, group, |held| keep(held, group.count()));
            }
            // In lane order, whichever lane runs first.
            let tickets = group.on_leader_inline(|| self.stream().lock.draw_many(group.count()));
            let ticket = tickets.wrapping_add(group.rank());
            group.grouped(u64::from(group.lane()), |alone| {
                with_ticket(self, alone, ticket, |held| keep(held, 1))
            })
        });
        counted(self.session, Call::Flockfile, kept)
    }

    /// As [`File::flockfile`] if nobody else has the stream now, as `ftrylockfile(3)`; whether the caller keeps it. Of lanes that call together,
    /// the lowest is the first to try.
    ///
    /// # Errors
    /// `EBADF` if the stream is closed.
    pub fn ftrylockfile(self) -> Result<bool, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Ftrylockfile);
        let kept = lanes.grouped(self.key(), |group| {
            let first = !Machine::INDEPENDENT_LANES || group.is_leader();
            let chosen = group.ballot(first);
            if !first {
                // The lowest lane has it, or nobody gets it now.
                return if self.is_open() { Ok(false) } else { Err(Errno::BADF) };
            }
            let few = group.subset(chosen);
            try_with_lock(self, few, |held| keep(held, few.count())).map(|kept| kept.is_some())
        });
        counted(self.session, Call::Ftrylockfile, kept)
    }

    /// Lets a stream go that the caller keeps, as `funlockfile(3)`: once for each [`File::flockfile`].
    ///
    /// # Errors
    /// `EPERM` if the caller does not keep it (undefined in POSIX), `EBADF` if it is closed.
    pub fn funlockfile(self) -> Result<(), Errno> {
        let inside = self.enter()?;
        let let_go = Lanes::calling(&inside, Call::Funlockfile).grouped(self.key(), |group| {
            if !is_kept(self, group) {
                return Err(if self.is_open() { Errno::PERM } else { Errno::BADF });
            }
            with_lock(self, group, |held| {
                let taken = group.on_leader_inline(|| held.stream.keep_less(group.count()));
                if group.rank() < taken { Ok(()) } else { Err(Errno::PERM) }
            })
        });
        counted(self.session, Call::Funlockfile, let_go)
    }

    /// Runs `body` while the calling lane keeps the stream: what it writes or reads there by several calls is one unit. On every machine:
    /// lanes that call together run it one after the other, in lane order, and no lane waits for another of its warp but for that.
    ///
    /// ```
    /// use gpufs_device::{Errno, File};
    ///
    /// fn entry(log: File, name: &core::ffi::CStr, value: u8) -> Result<(), Errno> {
    ///     log.locked(|log| {
    ///         log.fputs(name)?;
    ///         log.fputc(value).map(drop)
    ///     })?
    /// }
    /// ```
    ///
    /// # Errors
    /// `EBADF` if the stream is closed: then `body` does not run.
    pub fn locked<T>(self, body: impl FnOnce(Self) -> T) -> Result<T, Errno> {
        // Lanes of a warp in lockstep share a stream that one of them keeps: so they take turns.
        let turn = || {
            self.flockfile()?;
            let result = body(self);
            // Closed meanwhile, at worst.
            let _ = self.funlockfile();
            Ok(result)
        };
        if Machine::INDEPENDENT_LANES {
            return turn();
        }
        let lanes = crate::calling!();
        lanes.grouped(u64::from(lanes.lane()), |_| turn())
    }

    /// Tells streams apart within a warp, and lanes that keep one from those that do not, for calls that need the lock.
    pub(super) fn key(self) -> u64 {
        self.name() | if self.is_kept() { KEPT } else { 0 }
    }

    /// Whether the calling lane keeps the stream. Any lane.
    pub(super) fn is_kept(self) -> bool {
        let stream = self.stream();
        stream.is_kept() && stream.is_kept_by(identity())
    }

    /// Whether this handle's stream is open: a hint, where others may close it.
    pub(super) fn is_open(self) -> bool {
        self.stream().generation.peek() == self.generation
    }

    /// The part of a group, formed by [`File::name`], that the caller belongs to: those that keep the stream, or the others. After the fast
    /// path was found closed, before the lock is waited for. Convergent.
    pub(super) fn part_of(self, group: Lanes) -> Lanes {
        let mine = self.is_kept();
        let keepers = group.ballot(mine);
        if keepers.is_empty() {
            return group;
        }
        group.subset(if mine { keepers } else { group.mask().without(keepers) })
    }
}

/// Keeps a stream for the callers, `times` more often. Convergent.
fn keep(held: &LockedStream, times: u32) -> Result<(), Errno> {
    let caller = identity();
    held.update(|stream| stream.keep(caller, times));
    Ok(())
}
