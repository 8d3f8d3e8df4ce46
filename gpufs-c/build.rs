//! Names the shared library to the dynamic linker, so that a program finds it wherever it has been moved to.

fn main() {
    // With AMD GPUs it is another library, which needs libamdhip64: programs that need neither keep theirs.
    let name =
        if std::env::var_os("CARGO_FEATURE_HIP").is_some() { "libgpufs_hip.so" } else { "libgpufs.so" };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{name}");
    println!("cargo::rerun-if-changed=build.rs");
}
