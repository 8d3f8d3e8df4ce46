//! Names the shared library to the dynamic linker, so that a program finds it wherever it has been moved to.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libgpufs.so");
    println!("cargo::rerun-if-changed=build.rs");
}
