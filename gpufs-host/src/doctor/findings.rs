//! What is lacking, and what to do about it: each lack of a [`Report`](super::Report), in two sentences.

use crate::ring::{MissingOpcode, Mode, RingError, Survey};

use super::{
    Access, Driver, FileReport, GpuReport, Gpus, LockedMemory, ModeTried, Report, Seccomp, Served,
    SessionTried,
};

/// How much a lack matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Worth knowing; nothing need be done.
    Note,
    /// Sessions work, with less than they could: slower, or without some calls.
    Lack,
    /// Sessions cannot be opened.
    Stop,
}

/// One lack.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// What is so.
    pub is: String,
    /// What to do about it.
    pub remedy: String,
}

impl Finding {
    fn new(weight: Weight, is: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { weight, is: is.into(), remedy: remedy.into() }
    }
}

const SYSTEM_CALLS: &str = "io_uring_setup, io_uring_enter and io_uring_register";

/// All that is lacking, the worst first.
pub(super) fn of(report: &Report) -> Vec<Finding> {
    let Report { survey, access, modes, locked, session, gpus, files } = report;
    let mut all = Vec::new();
    all.extend(of_session(session));
    let registered_bytes = session.result.as_ref().map_or(0, |session| session.registered_bytes);
    all.extend(of_modes(modes, access, registered_bytes));
    all.extend(of_kernel(survey));
    all.extend(of_memory(session, *locked));
    all.extend(of_gpus(gpus));
    all.extend(files.iter().flat_map(of_file));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.weight));
    all
}

fn of_session(session: &SessionTried) -> Option<Finding> {
    let error = session.result.as_ref().err()?;
    Some(Finding::new(
        Weight::Stop,
        format!("no session can be opened: {error}"),
        "do what this message says",
    ))
}

/// Modes that do not work; those that are refused alike are named together.
fn of_modes(modes: &[ModeTried], access: &Access, registered_bytes: u64) -> Vec<Finding> {
    let mut groups: Vec<(Vec<Mode>, &RingError, String)> = Vec::new();
    for tried in modes {
        let Err(error) = &tried.result else { continue };
        let text = error.to_string();
        match groups.iter_mut().find(|(_, _, said)| *said == text) {
            Some((modes, ..)) => modes.push(tried.mode),
            None => groups.push((vec![tried.mode], error, text)),
        }
    }
    let instead = modes.iter().find(|tried| tried.result.is_ok()).map(|tried| tried.mode);
    let findings = groups.into_iter().map(|(refused, error, _)| {
        let names: Vec<_> = refused.iter().map(ToString::to_string).collect();
        let less = match instead {
            Some(instead) if refused.iter().any(|mode| rank(*mode) < rank(instead)) => {
                format!("; rings are served by {instead}, which is slower")
            }
            Some(_) => String::new(),
            None => "; no mode is left".to_owned(),
        };
        let weight = if instead.is_some() { Weight::Lack } else { Weight::Stop };
        let is = format!("no ring works in the mode {}: {}{less}", names.join(" or "), fact(error));
        Finding::new(weight, is, remedy(error, access, registered_bytes))
    });
    findings.collect()
}

fn rank(mode: Mode) -> usize {
    Mode::BEST_FIRST.iter().position(|other| *other == mode).unwrap_or(usize::MAX)
}

/// What a refusal says is so, without its advice.
pub(super) fn fact(error: &RingError) -> String {
    match error {
        RingError::NoIoUring { step, .. } => {
            format!("{step} fails with ENOSYS, as there is no io_uring here")
        }
        RingError::Forbidden { step, .. } => format!("{step} is refused (EPERM)"),
        RingError::LockedMemory { need_bytes, limit_bytes } => {
            let limit = limit_bytes.map_or("unlimited".to_owned(), |bytes| format!("{} KiB", bytes / 1024));
            format!(
                "a ring of {} KiB gets no memory (ENOMEM), and RLIMIT_MEMLOCK is {limit}",
                need_bytes.div_ceil(1024)
            )
        }
        RingError::NoCompletion { waited, .. } => {
            format!("a NOP was submitted and did not come back within {waited:?}")
        }
        other => other.to_string(),
    }
}

/// What to do about a refusal, where a session registers so many bytes.
fn remedy(error: &RingError, access: &Access, registered_bytes: u64) -> String {
    match error {
        RingError::Forbidden { .. } if !access.is_permitted() => match (access.disabled, access.group) {
            (Some(1), Some(group)) if group >= 0 => format!(
                "kernel.io_uring_disabled is 1: join the group {group} (kernel.io_uring_group), or `sysctl kernel.io_uring_disabled=0`"
            ),
            (Some(1), _) => "kernel.io_uring_disabled is 1 and no group may use it: `sysctl kernel.io_uring_group=GROUP` with one of yours, or \
                             `sysctl kernel.io_uring_disabled=0`"
                .to_owned(),
            (value, _) => format!(
                "kernel.io_uring_disabled is {}: `sysctl kernel.io_uring_disabled=0`, and in /etc/sysctl.d to keep it",
                value.unwrap_or(2)
            ),
        },
        RingError::Forbidden { .. } | RingError::NoIoUring { .. } | RingError::NoCompletion { .. } => {
            sandboxed(access).unwrap_or_else(|| match (error, &access.label) {
                (RingError::Forbidden { .. }, Some(label)) => format!(
                    "neither the sysctls nor seccomp forbid it, so a security module does (this process is labelled {label}): have its policy \
                     allow io_uring"
                ),
                (RingError::Forbidden { .. }, None) => {
                    "neither the sysctls nor seccomp forbid it, so a security module does: see its log (`dmesg`, `ausearch -m avc`)".to_owned()
                }
                (RingError::NoIoUring { .. }, _) => {
                    "use Linux 5.11 or later with CONFIG_IO_URING; a sandbox such as gVisor must pass it through".to_owned()
                }
                _ => "try again when the machine is less busy; if it stays so, choose another mode (Builder::mode)".to_owned(),
            })
        }
        RingError::LockedMemory { limit_bytes: Some(_), need_bytes } => raise(need_bytes + registered_bytes),
        RingError::LockedMemory { limit_bytes: None, .. } => {
            "free memory, or raise the cgroup's limit (memory.max)".to_owned()
        }
        RingError::Descriptors { system: false, .. } => "raise the limit of descriptors (`ulimit -n`)".to_owned(),
        RingError::Descriptors { system: true, .. } => "raise the sysctl fs.file-max".to_owned(),
        RingError::TooOld { since, .. } => format!("use Linux {since} or later"),
        RingError::MissingOpcodes { opcodes, .. } => newest(opcodes),
        _ => "see what the message says".to_owned(),
    }
}

/// What to do where filters of seccomp are in force.
fn sandboxed(access: &Access) -> Option<String> {
    let Seccomp::Filters(count) = access.seccomp else { return None };
    let filters =
        if count == 1 { "a seccomp filter is".to_owned() } else { format!("{count} seccomp filters are") };
    Some(match &access.container {
        Some(container) => format!(
            "{filters} in force, in a container ({container}): start it with a profile that allows {SYSTEM_CALLS} (Docker and Podman: \
             `--security-opt seccomp=PROFILE.json`; Kubernetes: securityContext.seccompProfile)"
        ),
        None => format!(
            "{filters} in force: have whatever started this process allow {SYSTEM_CALLS} (systemd: SystemCallFilter=)"
        ),
    })
}

/// What to do where locked memory is short: at least so much is needed.
fn raise(need_bytes: u64) -> String {
    format!(
        "raise RLIMIT_MEMLOCK above {} KiB: `ulimit -l`, LimitMEMLOCK= in systemd, `--ulimit memlock=-1` in Docker; or ask for fewer buffers \
         (Builder::buffers)",
        need_bytes / 1024
    )
}

/// The release that has all of these.
fn newest(opcodes: &[MissingOpcode]) -> String {
    let since = opcodes.iter().map(|opcode| opcode.since).max();
    since.map_or_else(String::new, |since| format!("use Linux {since} or later"))
}

fn of_kernel(survey: &Survey) -> Vec<Finding> {
    let mut all = Vec::new();
    let kernel = survey.kernel;
    for lack in &survey.lacks_required {
        let is = format!(
            "Linux {kernel} lacks io_uring's {}, which {} are made with; rings are served by threads, which is slower",
            lack.name, lack.calls
        );
        all.push(Finding::new(Weight::Lack, is, format!("use Linux {} or later", lack.since)));
    }
    for lack in &survey.lacks_optional {
        let is = format!("Linux {kernel} lacks io_uring's {}: {} fail with EINVAL", lack.name, lack.calls);
        let remedy = format!("use Linux {} or later, or the mode threads (Builder::mode)", lack.since);
        all.push(Finding::new(Weight::Lack, is, remedy));
    }
    if survey.features.is_ok() && !survey.restrictions {
        let is = "a ring cannot be restricted to some operations (IORING_REGISTER_RESTRICTIONS), which a sandbox needs";
        all.push(Finding::new(Weight::Note, is, "use Linux 5.10 or later for Builder::sandbox"));
    }
    if survey.landlock.is_none_or(|version| version < 3) {
        let found = survey.landlock.map_or("none".to_owned(), |version| format!("version {version}"));
        let is = format!("a sandbox needs Landlock of version 3, and there is {found}");
        let remedy = "use Linux 6.2 or later with Landlock built in and in the boot option `lsm=`, or Sandbox::as_far_as_possible";
        all.push(Finding::new(Weight::Note, is, remedy));
    }
    all
}

fn of_memory(session: &SessionTried, locked: LockedMemory) -> Option<Finding> {
    let session = session.result.as_ref().ok()?;
    if session.is_registered {
        return None;
    }
    let limit = locked.limit_bytes.map_or("unlimited".to_owned(), |bytes| format!("{} KiB", bytes / 1024));
    let is = format!(
        "RLIMIT_MEMLOCK is {limit}, and a default session registers {} KiB: it works without registered buffers, so that each operation has its \
         pages looked up again, and no sandbox can be had",
        session.registered_bytes / 1024
    );
    Some(Finding::new(Weight::Lack, is, raise(session.registered_bytes)))
}

fn of_gpus(gpus: &Gpus) -> Vec<Finding> {
    let mut all = Vec::new();
    let nvidia = gpus.gpus.iter().any(|gpu| gpu.maker == "NVIDIA");
    if let Driver::Refused(reason) = &gpus.driver {
        all.push(if nvidia {
            Finding::new(
                Weight::Lack,
                format!("there is an NVIDIA GPU on the bus, and its driver cannot be used: {reason}"),
                "install the NVIDIA driver (kernel module and libcuda.so); in a container, give it the GPU (Docker: `--gpus all`)",
            )
        } else {
            Finding::new(
                Weight::Note,
                format!("no NVIDIA GPU can be used: {reason}"),
                "nothing, if kernels are to run on CPU lanes; otherwise install a GPU and its driver",
            )
        });
    }
    if gpus.driver == Driver::NotBuilt && nvidia {
        let is = "there is an NVIDIA GPU, and this gpufs was built without its part for them";
        all.push(Finding::new(
            Weight::Lack,
            is,
            "build gpufs-host with its feature `cuda`, which is on by default",
        ));
    }
    all.extend(gpus.gpus.iter().flat_map(of_gpu));
    all
}

fn of_gpu(gpu: &GpuReport) -> Vec<Finding> {
    let mut all = Vec::new();
    let address = &gpu.address;
    if let Some(link) = gpu.link.as_ref().filter(|link| link.width < link.width_max) {
        all.push(Finding::new(
            Weight::Lack,
            format!("the GPU at {address} has {} of its {} PCI Express lanes", link.width, link.width_max),
            "put it into a slot with all lanes; what shares lanes with the slot stands in the board's manual",
        ));
    }
    if let Some(kind) = gpu.iommu.as_ref().filter(|kind| kind.starts_with("DMA")) {
        all.push(Finding::new(
            Weight::Note,
            format!("the IOMMU translates each access of the GPU at {address} ({kind})"),
            "if transfers are slow, boot with `iommu=pt`, which leaves addresses as they are",
        ));
    }
    all
}

fn of_file(file: &FileReport) -> Vec<Finding> {
    let mut all = Vec::new();
    let path = file.path.display();
    let kind = file.file_system.as_deref().unwrap_or("its file system");
    if let Err(reason) = &file.reading {
        let remedy = "give it a regular file or a block device that can be read";
        all.push(Finding::new(Weight::Note, format!("{path} was not measured: {reason}"), remedy));
    } else if let Err(reason) = &file.writing {
        let remedy =
            "give it a file in a folder where files can be made, on a file system that has O_TMPFILE";
        all.push(Finding::new(
            Weight::Note,
            format!("writing beside {path} was not measured: {reason}"),
            remedy,
        ));
    }
    for (verb, measured) in [("reads", &file.reading), ("writes", &file.writing)] {
        if measured.as_ref().is_ok_and(|measured| measured.served == Served::Worker) {
            let is = format!(
                "the kernel hands {verb} of {path} to worker threads, as {kind} cannot be asked not to wait"
            );
            let remedy = if verb == "reads" {
                "for small reads use another file system (ext4, XFS and Btrfs read in place), more rings, or larger reads"
            } else {
                "for small writes use another file system (XFS and Btrfs write in place), or streams, which write whole buffers"
            };
            all.push(Finding::new(Weight::Note, is, remedy));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Release;

    fn forbidden() -> Vec<ModeTried> {
        let tried = |mode| ModeTried {
            mode,
            result: Err(RingError::Forbidden {
                step: "io_uring_setup",
                mode,
                kernel: Release { major: 6, minor: 8 },
                disabled: None,
                group: None,
            }),
        };
        let threads = ModeTried { mode: Mode::Threads, result: Ok(std::time::Duration::from_millis(1)) };
        vec![tried(Mode::Sqpoll), tried(Mode::Enter), threads]
    }

    fn said(access: &Access) -> Finding {
        let [finding] = &of_modes(&forbidden(), access, 0)[..] else { panic!("one finding for both modes") };
        assert_eq!(finding.weight, Weight::Lack);
        assert!(
            finding.is.contains("sqpoll or enter") && finding.is.contains("served by threads"),
            "{finding:?}"
        );
        finding.clone()
    }

    #[test]
    fn who_forbids_io_uring_is_named() {
        let access = |disabled, group| Access { disabled, group, ..Access::default() };
        assert!(said(&access(Some(2), Some(-1))).remedy.contains("sysctl kernel.io_uring_disabled=0"));
        assert!(said(&access(Some(1), Some(7))).remedy.contains("join the group 7"));
        assert!(said(&access(Some(1), Some(-1))).remedy.contains("no group"));
        let filtered = Access { seccomp: Seccomp::Filters(2), ..access(Some(0), None) };
        assert!(said(&filtered).remedy.starts_with("2 seccomp filters are in force: "));
        let contained = Access { container: Some("/.dockerenv".into()), ..filtered };
        assert!(said(&contained).remedy.contains("--security-opt seccomp"));
        let labelled = Access { label: Some("docker-default".into()), ..access(Some(0), None) };
        assert!(said(&labelled).remedy.contains("docker-default"));
        assert!(said(&access(None, None)).remedy.contains("security module"));
    }

    #[test]
    fn an_old_kernels_lacks_name_calls_and_releases() {
        let found = of_kernel(&Survey::of_an_old_kernel());
        let about = |word: &str| {
            let finding = found.iter().find(|finding| finding.is.contains(word));
            finding.unwrap_or_else(|| panic!("{word}: {found:?}")).clone()
        };
        assert!(
            about("RENAMEAT").is.contains("rename, renameat") && about("RENAMEAT").remedy.contains("5.11")
        );
        assert!(about("FTRUNCATE").is.contains("EINVAL") && about("FTRUNCATE").remedy.contains("6.9"));
        assert!(about("Landlock").remedy.contains("6.2"));
    }

    #[test]
    fn a_gpu_without_a_driver_or_lanes_is_a_lack() {
        let found = of_gpus(&Gpus::without_driver());
        let [driver, lanes] = &found[..] else { panic!("two findings: {found:?}") };
        assert!(driver.is.contains("libcuda.so was not found") && driver.weight == Weight::Lack);
        assert!(lanes.is.contains("8 of its 16"));
        let none = Gpus { gpus: Vec::new(), ..Gpus::without_driver() };
        assert!(matches!(&of_gpus(&none)[..], [finding] if finding.weight == Weight::Note));
    }

    #[test]
    fn little_locked_memory_is_told_with_what_a_session_wants() {
        let session = |is_registered| SessionTried {
            result: Ok(super::super::SessionReport {
                mode: Mode::Enter,
                registered_bytes: 58 << 20,
                is_registered,
                opening: std::time::Duration::ZERO,
            }),
        };
        let locked = LockedMemory { limit_bytes: Some(64 << 10), is_exempt: false };
        let found = of_memory(&session(false), locked).expect("a lack");
        assert!(found.is.contains("64 KiB") && found.is.contains("59392 KiB"), "{found:?}");
        assert_eq!(of_memory(&session(true), locked), None);
    }
}
