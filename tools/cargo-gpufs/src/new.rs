//! `new`: a package from the template.

use std::fs;
use std::path::Path;

/// The template's files, and where they go. `{{name}}` is the package's name, `{{library}}` that of its library in Rust, and `{{gpufs-…}}` how it
/// depends on gpufs.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../template/Cargo.toml.in")),
    ("build.rs", include_str!("../template/build.rs")),
    ("src/lib.rs", include_str!("../template/src/lib.rs")),
    ("src/main.rs", include_str!("../template/src/main.rs")),
    ("tests/lines.rs", include_str!("../template/tests/lines.rs")),
    (".gitignore", "/target\n/log.txt\n"),
];
/// The sources that this program was built from.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Makes the package.
pub(crate) fn new(folder: &Path, gpufs: Option<&Path>) -> Result<(), String> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let starts_well = name.starts_with(|letter: char| letter.is_ascii_lowercase());
    let is_name =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter);
    if !starts_well || !name.chars().all(is_name) {
        return Err(format!(
            "'{name}' is no name for a package: a small letter, then small letters, digits, '-' and '_'"
        ));
    }
    if folder.exists() {
        return Err(format!("{}: it is there already; name a folder that is to be made", folder.display()));
    }
    let depends = depends(gpufs)?;
    for (file, template) in FILES {
        let mut text = template.replace("{{name}}", name).replace("{{library}}", &name.replace('-', "_"));
        for part in ["build", "device", "host"] {
            text = text.replace(&format!("{{{{gpufs-{part}}}}}"), &depends(part));
        }
        let path = folder.join(file);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("{}: made. Next: cd {} && cargo gpufs run", folder.display(), folder.display());
    Ok(())
}

/// How a package depends on the part of gpufs of a name.
fn depends(gpufs: Option<&Path>) -> Result<impl Fn(&str) -> String, String> {
    let is_gpufs = |folder: &Path| folder.join("gpufs-device/Cargo.toml").exists();
    let sources = match gpufs {
        Some(folder) if !is_gpufs(folder) => {
            return Err(format!("--gpufs {}: there is no gpufs-device/Cargo.toml in it", folder.display()));
        }
        Some(folder) => Some(folder),
        None => Some(Path::new(SOURCES)).filter(|folder| is_gpufs(folder)),
    };
    let sources = sources
        .map(|folder| fs::canonicalize(folder).map_err(|error| format!("{}: {error}", folder.display())))
        .transpose()?;
    Ok(move |part: &str| match &sources {
        Some(folder) => {
            format!("{{ path = {:?} }}", folder.join(format!("gpufs-{part}")).display().to_string())
        }
        None => format!("{:?}", env!("CARGO_PKG_VERSION")),
    })
}
