//! What the compiler emitted for a target: the instructions of the golden functions, beside those expected.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use gpufs_build::{has_light_functions, is_whole};

use super::{Target, emitted, read};
use crate::workspace::root;

/// Compares the golden functions with what is expected of them.
pub(super) fn golden(target: &Target) -> Result<(), String> {
    let code = read(&emitted(target))?;
    let nvptx = target.gpu().is_nvidia();
    if nvptx {
        is_whole(&code)?;
        if !has_light_functions(&code) {
            return Err("gpufs-build/src/preserve.rs names a function that is not there".to_owned());
        }
    }
    let functions = if nvptx { ptx_functions(&code) } else { amdgcn_functions(&code) };
    let mut shown = String::new();
    for (name, instructions) in &functions {
        let Some(name) = shown_name(name) else { continue };
        let _ = writeln!(shown, "{name}");
        for instruction in instructions {
            let _ = writeln!(shown, "    {instruction}");
        }
    }
    if !nvptx {
        report_amdgcn_kernels(&code);
    }
    let path = root().join(format!("gpufs-device/tests/golden/expect/{}.txt", target.cpu));
    if std::env::var_os("GPUFS_BLESS").is_some() {
        return std::fs::write(&path, shown).map_err(|error| error.to_string());
    }
    let expected = read(&path)?;
    if shown == expected {
        println!("{} functions are as expected", shown.lines().filter(|line| !line.starts_with(' ')).count());
        return Ok(());
    }
    let got = std::env::temp_dir().join(format!("gpufs-golden-{}.txt", target.cpu));
    std::fs::write(&got, shown).map_err(|error| error.to_string())?;
    let _ = Command::new("diff").arg("-u").arg(&path).arg(&got).status();
    Err(format!("differs from {} (GPUFS_BLESS=1 accepts it)", path.display()))
}

/// Under which name the golden file has a function: those written for it, and the warp operations that they call.
fn shown_name(name: &str) -> Option<&str> {
    if name.starts_with("golden_") {
        return Some(name);
    }
    let (_, operation) = name.split_once("4warp7machine")?;
    // The rest of a mangled name: the length, then the name.
    let (length, rest) = operation.split_at(operation.find(|digit: char| !digit.is_ascii_digit())?);
    (length.parse() == Ok(rest.len())).then_some(rest)
}

/// The functions of a PTX module: of each, the instructions that touch memory or other lanes, without operands.
fn ptx_functions(code: &str) -> BTreeMap<String, Vec<String>> {
    const SHOWN: &[&str] = &[
        "ld",
        "st",
        "atom",
        "red",
        "fence",
        "membar",
        "bar",
        "shfl",
        "vote",
        "activemask",
        "nanosleep",
        "call",
    ];
    let mut functions = BTreeMap::new();
    let mut current: Option<(String, Vec<String>)> = None;
    for line in code.lines().map(str::trim) {
        if [".visible .func", ".visible .entry", ".func"].iter().any(|head| line.starts_with(head)) {
            let head = line.split("//").next().unwrap_or(line).trim_end_matches(['(', ')', ' ']);
            current = head.rsplit([' ', ')']).next().map(|name| (name.to_owned(), Vec::new()));
        } else if line == "}" {
            functions.extend(current.take());
        } else if let Some((_, instructions)) = &mut current {
            let mnemonic = line.split([' ', '\t', ';']).next().unwrap_or_default();
            let family = mnemonic.split('.').next().unwrap_or_default();
            let argument = mnemonic.starts_with("ld.param") || mnemonic.starts_with("st.param");
            if SHOWN.contains(&family) && !argument {
                instructions.push(mnemonic.to_owned());
            } else if line.contains("%globaltimer") {
                instructions.push(format!("{mnemonic} %globaltimer"));
            }
        }
    }
    functions
}

/// The functions of an AMDGCN module: of each, the instructions that touch memory, other lanes or time, with what says their scope and
/// what they wait for, but without registers.
fn amdgcn_functions(code: &str) -> BTreeMap<String, Vec<String>> {
    const SHOWN: &[&str] = &[
        "buffer_",
        "ds_",
        "flat_",
        "global_",
        "s_memrealtime",
        "s_sendmsg",
        "s_sleep",
        "s_wait",
        "scratch_",
        "v_readlane",
    ];
    const SCOPES: &[&str] = &["dlc", "glc", "nt", "sc0", "sc1", "slc"];
    let mut functions = BTreeMap::new();
    let mut current: Option<(String, Vec<String>)> = None;
    for line in code.lines() {
        let line = line.split(';').next().unwrap_or_default().trim_end();
        if let Some(name) = line.strip_suffix(':')
            && !name.starts_with('.')
        {
            current = Some((name.to_owned(), Vec::new()));
        } else if line.starts_with(".Lfunc_end") {
            functions.extend(current.take());
        } else if let Some((_, instructions)) = &mut current {
            let mut words = line.split_whitespace();
            let mnemonic = words.next().unwrap_or_default();
            if !SHOWN.iter().any(|shown| mnemonic.starts_with(shown)) {
                continue;
            }
            let whole = mnemonic.starts_with("s_");
            let kept =
                words.filter(|word| if whole { !word.starts_with("s[") } else { SCOPES.contains(word) });
            instructions.push(std::iter::once(mnemonic).chain(kept).collect::<Vec<_>>().join(" "));
        }
    }
    functions
}

/// Prints what each kernel takes, from the metadata at the end of the code.
fn report_amdgcn_kernels(code: &str) {
    const KEYS: &[&str] =
        &[".private_segment_fixed_size", ".sgpr_count", ".vgpr_count", ".uses_dynamic_stack"];
    let mut values = BTreeMap::new();
    for line in code.lines().skip_while(|line| !line.contains(".amdgpu_metadata")) {
        let Some((key, value)) = line.trim().trim_start_matches("- ").split_once(':') else { continue };
        if let Some(known) = KEYS.iter().find(|known| **known == key) {
            values.insert(*known, value.trim().to_owned());
        } else if key == ".symbol" {
            values.insert(".symbol", value.trim().trim_end_matches(".kd").to_owned());
        }
        // The keys come in alphabetical order: this is a kernel's last.
        if key == ".wavefront_size" {
            let get = |key| values.get(key).map_or("?", String::as_str);
            println!(
                "{:<24} {:>4} VGPRs {:>4} SGPRs {:>6} bytes of stack{}",
                get(".symbol"),
                get(".vgpr_count"),
                get(".sgpr_count"),
                get(".private_segment_fixed_size"),
                if get(".uses_dynamic_stack") == "true" { ", and what indirect calls take" } else { "" }
            );
            values.clear();
        }
    }
}
