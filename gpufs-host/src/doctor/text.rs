//! The report for people: what is so, a line each, then what to do.

use std::fmt::{Display, Formatter, Result};

use super::findings::fact;
use super::{
    Access, Driver, FileReport, GpuReport, LockedMemory, Measured, ModeTried, Report, Seccomp, Served, Weight,
};
use crate::ring::Survey;

/// Where the text of a line begins.
const WIDTH: usize = 14;

fn line(f: &mut Formatter<'_>, name: &str, text: impl Display) -> Result {
    writeln!(f, "{name:WIDTH$}{text}")
}

fn list(names: impl IntoIterator<Item = impl Display>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        kernel(f, &self.survey)?;
        line(f, "io_uring", access(&self.access))?;
        self.modes
            .iter()
            .enumerate()
            .try_for_each(|(index, tried)| line(f, if index == 0 { "rings" } else { "" }, mode(tried)))?;
        line(f, "locked memory", locked(self.locked))?;
        match &self.session.result {
            Ok(session) => {
                let buffers = if session.is_registered { "" } else { "not " };
                line(
                    f,
                    "sessions",
                    format_args!(
                        "served by {}; {} KiB of buffers, {buffers}registered; opened in {:.1?}",
                        session.mode,
                        session.registered_bytes / 1024,
                        session.opening
                    ),
                )?;
            }
            Err(error) => line(f, "sessions", format_args!("none: {error}"))?,
        }
        line(
            f,
            "NVIDIA",
            match &self.gpus.driver {
                Driver::Works(version) => {
                    format!("the driver works, for CUDA {}.{}", version / 1000, version % 1000 / 10)
                }
                Driver::Refused(reason) => format!("no driver: {reason}"),
                Driver::NotBuilt => "not a part of this gpufs".to_owned(),
            },
        )?;
        self.gpus.gpus.iter().try_for_each(|found| line(f, "GPU", gpu(found)))?;
        line(f, "IOMMU", if self.gpus.has_iommu { "in use" } else { "none" })?;
        self.files.iter().try_for_each(|found| file(f, found))?;
        let findings = self.findings();
        for (index, finding) in findings.iter().enumerate() {
            let weight = match finding.weight {
                Weight::Stop => "stop",
                Weight::Lack => "lack",
                Weight::Note => "note",
            };
            writeln!(f, "\n{}. {weight}: {}\n   -> {}", index + 1, finding.is, finding.remedy)?;
        }
        if findings.iter().all(|finding| finding.weight == Weight::Note) {
            writeln!(f, "\nSessions work in every mode, and nothing is lacking.")?;
        }
        Ok(())
    }
}

fn kernel(f: &mut Formatter<'_>, survey: &Survey) -> Result {
    let lacks = survey.lacks_required.iter().chain(&survey.lacks_optional);
    let asked = match &survey.features {
        Ok(_) => format!("lacks of gpufs's operations: {}", list(lacks.map(|lack| lack.name))),
        Err(_) => "it does not tell its operations".to_owned(),
    };
    line(f, "kernel", format_args!("Linux {}; {asked}", survey.kernel))?;
    let memories = survey.memories.iter().filter(|tried| tried.refused.is_none()).map(|tried| tried.memory);
    let yes = |has: bool| if has { "yes" } else { "no" };
    line(
        f,
        "",
        format_args!(
            "ring memory of: {}; without index array: {}; restrictions: {}; Landlock: {}",
            list(memories),
            yes(survey.no_index_array),
            yes(survey.restrictions),
            survey.landlock.map_or("none".to_owned(), |version| version.to_string())
        ),
    )
}

fn access(access: &Access) -> String {
    let sysctl = match access.disabled {
        None => "no sysctl forbids it".to_owned(),
        Some(value) => {
            let permitted = if access.is_permitted() { "permits" } else { "forbids" };
            format!("kernel.io_uring_disabled is {value}, which {permitted} it")
        }
    };
    let filters = match access.seccomp {
        Seccomp::Off => "no seccomp filter".to_owned(),
        Seccomp::Filters(count) => format!("seccomp filters: {count}"),
        Seccomp::Unknown => "seccomp unknown".to_owned(),
    };
    let container =
        access.container.as_ref().map_or(String::new(), |kind| format!("; in a container ({kind})"));
    let label = access.label.as_ref().map_or(String::new(), |label| format!("; labelled {label}"));
    format!("{sysctl}; {filters}{container}{label}")
}

fn mode(tried: &ModeTried) -> String {
    match &tried.result {
        Ok(took) => format!("{}: 64 NOPs came back, in {took:.1?}", tried.mode),
        Err(error) => format!("{}: {}", tried.mode, fact(error)),
    }
}

fn locked(locked: LockedMemory) -> String {
    let limit =
        locked.limit_bytes.map_or("has no limit".to_owned(), |bytes| format!("up to {} KiB", bytes / 1024));
    let exempt = if locked.is_exempt { "; CAP_IPC_LOCK, so that no limit counts" } else { "" };
    format!("{limit}{exempt}")
}

fn gpu(gpu: &GpuReport) -> String {
    let GpuReport { address, maker, .. } = gpu;
    let mut text = match &gpu.seen {
        Some(seen) => {
            format!(
                "{}: {} (sm_{}, {} MiB), {address}",
                seen.ordinal,
                seen.name,
                seen.architecture,
                seen.memory_bytes >> 20
            )
        }
        None => format!("{maker}, {address}"),
    };
    if let Some(link) = &gpu.link {
        text +=
            &format!("; {} lanes of {} at {} of {}", link.width, link.width_max, link.speed, link.speed_max);
    }
    if let Some(kind) = &gpu.iommu {
        text += &format!("; IOMMU {kind}");
    }
    text
}

fn file(f: &mut Formatter<'_>, file: &FileReport) -> Result {
    let kind = file.file_system.as_deref().unwrap_or("unknown");
    let direct = if file.direct { "can be opened with O_DIRECT" } else { "not with O_DIRECT" };
    line(f, "file", format_args!("{}: {} bytes on {kind}; {direct}", file.path.display(), file.bytes))?;
    line(f, "  reads", measured(&file.reading))?;
    line(f, "  writes", measured(&file.writing))
}

fn measured(measured: &std::result::Result<Measured, String>) -> String {
    let measured = match measured {
        Ok(measured) => measured,
        Err(reason) => return format!("not measured: {reason}"),
    };
    let served = match &measured.served {
        Served::Inline => "inline".to_owned(),
        Served::Worker => "by worker threads of the kernel".to_owned(),
        Served::HostThread => "by threads of gpufs".to_owned(),
        Served::Unknown(reason) => format!("in a way that cannot be told ({reason})"),
    };
    let rate = measured.bytes_per_second / 1e9;
    format!("served {served}; 4 KiB in {:.1?}; {rate:.2} GB/s", measured.latency)
}
