//! How the shared library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Its exit handler and its threads are there until the process ends: `dlclose(3)` must not unmap their code.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // What programs ask for that were linked with it: a library of the same major version.
    let name = if std::env::var_os("CARGO_FEATURE_HIP").is_some() { "libgpufs_hip" } else { "libgpufs" };
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets it");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{name}.so.{major}");
}
