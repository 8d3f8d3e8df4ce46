//! `hostile_check [OPTION VALUE] …`: the attempts of kernels that mean harm ([`gpufs_tests::hostile`]), on CPU lanes or on a GPU, without a sandbox
//! and with one. Prints a table (attempt, way, what came of it), what is not tried, and a line that says how it ended.
//!
//! | option | value |
//! |---|---|
//! | `--device` | `cpu` or `cuda`; without it, `cpu` |
//! | `--program` | for `cuda`: `tests/kernels`, as PTX or as `ptxas` assembled it |
//! | `--ordinal` | for `cuda`: which GPU, from 0 |
//! | `--families` | which of the attempts, with `+` between; without it, all that the device can make |

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use gpufs_host::CpuOptions;
use gpufs_tests::hostile::{FAMILIES, OF_LANES, Site, check};
use gpufs_tests::suite::Device;

/// The command line: where, and which families.
fn options(arguments: &[String]) -> Result<(Device, Option<String>), Box<dyn Error>> {
    let (mut cuda, mut program, mut ordinal, mut families) = (false, None, 0, None);
    for pair in arguments.chunks(2) {
        let [option, value] = pair else { return Err(format!("{} wants a value", pair[0]).into()) };
        match option.as_str() {
            "--device" if value == "cuda" => cuda = true,
            "--device" if value == "cpu" => cuda = false,
            "--device" => return Err("--device: cpu or cuda".into()),
            "--program" => program = Some(value),
            "--ordinal" => ordinal = value.parse()?,
            "--families" => families = Some(value.clone()),
            other => return Err(format!("there is no option {other}").into()),
        }
    }
    if let Some(family) =
        families.iter().flat_map(|all| all.split('+')).find(|family| !FAMILIES.contains(family))
    {
        return Err(format!("--families {family}: there are {}", FAMILIES.join(", ")).into());
    }
    if !cuda {
        return Ok((Device::Cpu(CpuOptions::default()), families));
    }
    let path = program.ok_or("--device cuda wants --program, PTX of tests/kernels")?;
    let program = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    Ok((Device::Cuda { ordinal, program: program.into() }, families))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (device, families) = match options(&arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("hostile_check: {error}");
            return ExitCode::from(2);
        }
    };
    let site = Site::program(device, arguments);
    let left_out = |family: &str| OF_LANES.iter().find(|(name, _)| site.is_gpu() && *name == family);
    let families = families.unwrap_or_else(|| FAMILIES.join("+"));
    let tried: Vec<&str> = families.split('+').filter(|family| left_out(family).is_none()).collect();
    let started = Instant::now();
    let checked = if tried.is_empty() { Ok(0) } else { check(&site, &tried.join("+")) };
    for (family, why) in families.split('+').filter_map(left_out) {
        println!("| {family} | – | on CPU lanes alone (cargo test --test hostile) | {why} |");
    }
    match checked {
        Ok(count) => {
            println!(
                "hostile_check: {count} attempts in {:.0?}, none does harm in a sandbox",
                started.elapsed()
            );
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            println!(
                "{wrong}\nhostile_check: FAILED in {:.0?}: {} findings",
                started.elapsed(),
                wrong.lines().count()
            );
            ExitCode::FAILURE
        }
    }
}
