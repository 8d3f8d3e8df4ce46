//! `gpufs doctor`: the report of `gpufs_host::doctor` as text or JSON, and its exit status.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use gpufs_host::doctor::{
    self, Driver, FileReport, Finding, GpuReport, Measured, ModeTried, Report, Seccomp, Served, SessionTried,
    Weight,
};
use serde_json::{Value, json};

use crate::command_line::Asked;

/// Exit statuses: sessions work with less than they could, or a file that was named cannot be read; and none can be opened.
const LACKS: u8 = 1;
const STOPS: u8 = 2;

/// Looks at the machine and says what it found.
pub(crate) fn examine(asked: &Asked) -> Result<ExitCode, String> {
    let files: Vec<&Path> = asked.files.iter().map(AsRef::as_ref).collect();
    let report = doctor::examine(&files);
    let status = status(&report, asked.gpu);
    let text = if asked.json { format!("{:#}\n", object(&report, status)) } else { report.to_string() };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the report could not be written: {error}"))
        }
        _ => Ok(ExitCode::from(status)),
    }
}

fn status(report: &Report, wants_gpu: bool) -> u8 {
    match report.worst() {
        Some(Weight::Stop) => STOPS,
        Some(Weight::Lack) => LACKS,
        _ if wants_gpu && !report.has_gpu() => LACKS,
        _ if report.files.iter().any(|file| file.reading.is_err()) => LACKS,
        _ => 0,
    }
}

fn object(report: &Report, status: u8) -> Value {
    let survey = &report.survey;
    let names = |lacks: &[gpufs_host::ring::MissingOpcode]| -> Vec<Value> {
        let one = |lack: &gpufs_host::ring::MissingOpcode| {
            json!({
                "operation": lack.name, "since": lack.since.to_string(), "calls": lack.calls,
            })
        };
        lacks.iter().map(one).collect()
    };
    let memories: Vec<_> = survey
        .memories
        .iter()
        .map(|tried| {
            json!({
                "memory": tried.memory.to_string(),
                "refused": tried.refused.as_ref().map(ToString::to_string),
            })
        })
        .collect();
    let access = &report.access;
    json!({
        "gpufs": env!("CARGO_PKG_VERSION"),
        "status": status,
        "kernel": {
            "release": survey.kernel.to_string(),
            "features": survey.features.as_ref().ok(),
            "refused": survey.features.as_ref().err().map(ToString::to_string),
            "lacks_required": names(&survey.lacks_required),
            "lacks_optional": names(&survey.lacks_optional),
            "ring_memory": memories,
            "no_index_array": survey.no_index_array,
            "restrictions": survey.restrictions,
            "landlock": survey.landlock,
        },
        "io_uring": {
            "disabled": access.disabled,
            "group": access.group,
            "in_group": access.in_group,
            "permitted_by_sysctl": access.is_permitted(),
            "seccomp_filters": match access.seccomp {
                Seccomp::Off => Some(0),
                Seccomp::Filters(count) => Some(count),
                Seccomp::Unknown => None,
            },
            "container": access.container,
            "label": access.label,
        },
        "rings": report.modes.iter().map(mode).collect::<Vec<_>>(),
        "locked_memory": {
            "limit_bytes": report.locked.limit_bytes,
            "exempt": report.locked.is_exempt,
        },
        "session": session(&report.session),
        "nvidia": match &report.gpus.driver {
            Driver::Works(version) => json!({ "cuda": version }),
            Driver::Refused(reason) => json!({ "refused": reason }),
            Driver::NotBuilt => Value::Null,
        },
        "gpus": report.gpus.gpus.iter().map(gpu).collect::<Vec<_>>(),
        "iommu": report.gpus.has_iommu,
        "files": report.files.iter().map(file).collect::<Vec<_>>(),
        "findings": report.findings().iter().map(finding).collect::<Vec<_>>(),
    })
}

fn session(tried: &SessionTried) -> Value {
    match &tried.result {
        Ok(session) => json!({
            "mode": session.mode.to_string(),
            "registered_bytes": session.registered_bytes,
            "registered": session.is_registered,
            "opening_ms": session.opening.as_secs_f64() * 1e3,
        }),
        Err(error) => json!({ "refused": error.to_string() }),
    }
}

fn mode(tried: &ModeTried) -> Value {
    let name = tried.mode.to_string();
    match &tried.result {
        Ok(took) => json!({ "mode": name, "works": true, "nops_ms": took.as_secs_f64() * 1e3 }),
        Err(error) => json!({ "mode": name, "works": false, "refused": error.to_string() }),
    }
}

fn gpu(gpu: &GpuReport) -> Value {
    json!({
        "address": gpu.address,
        "maker": gpu.maker,
        "iommu": gpu.iommu,
        "link": gpu.link.as_ref().map(|link| json!({
            "speed": link.speed, "speed_max": link.speed_max, "width": link.width, "width_max": link.width_max,
        })),
        "driver": gpu.seen.as_ref().map(|seen| json!({
            "ordinal": seen.ordinal, "name": seen.name, "architecture": seen.architecture, "memory_bytes": seen.memory_bytes,
        })),
    })
}

fn file(file: &FileReport) -> Value {
    json!({
        "path": file.path.to_string_lossy(),
        "file_system": file.file_system,
        "bytes": file.bytes,
        "mode": file.mode.map(|mode| mode.to_string()),
        "direct": file.direct,
        "reads": measured(&file.reading),
        "writes": measured(&file.writing),
    })
}

fn measured(measured: &Result<Measured, String>) -> Value {
    match measured {
        Ok(measured) => json!({
            "served": match &measured.served {
                Served::Inline => "inline",
                Served::Worker => "worker",
                Served::HostThread => "host thread",
                _ => "unknown",
            },
            "latency_us": measured.latency.as_secs_f64() * 1e6,
            "bytes_per_second": measured.bytes_per_second,
        }),
        Err(reason) => json!({ "refused": reason }),
    }
}

fn finding(finding: &Finding) -> Value {
    let weight = match finding.weight {
        Weight::Stop => "stop",
        Weight::Lack => "lack",
        Weight::Note => "note",
    };
    json!({ "weight": weight, "is": finding.is, "remedy": finding.remedy })
}
