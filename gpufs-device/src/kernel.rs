//! `kernel!`: one declaration for every device.

pub use gpufs_core::kernel::Kernel;
pub use gpufs_core::session::Session;

/// Declares a kernel: an ordinary function that any thread of the grid runs, and beside it a module of the same name with
///
/// - `Arguments`, what a launch hands to every thread;
/// - `Entry`, which the host starts: `session.start::<name::Entry>(grid, name::Arguments { … })`;
/// - in a device build, the entry point of that name.
///
/// The first parameter is the session. The others are plain data and handles (`Copy`), since they travel to the device by value.
///
/// ```
/// gpufs_device::kernel! {
///     /// Every thread says who it is.
///     pub fn greet(fs: Fs, rounds: u32) {
///         for round in 0..rounds {
///             let _ = gpufs_device::printf!(fs, c"thread %lu, round %u\n", gpufs_device::warp::global_thread(), round);
///         }
///     }
/// }
/// # fn main() { let _: greet::Arguments = greet::Arguments { rounds: 3 }; }
/// ```
#[macro_export]
macro_rules! kernel {
    ($(#[$attribute:meta])* pub fn $name:ident($fs:ident: Fs $(, $argument:ident: $type:ty)* $(,)?) $body:block) => {
        $(#[$attribute])*
        pub fn $name($fs: $crate::Fs $(, $argument: $type)*) $body

        #[doc = concat!("How the host starts [`", stringify!($name), "()`].")]
        pub mod $name {
            #[allow(unused_imports, reason = "the types of the arguments")]
            use super::*;

            /// What a launch hands to every thread.
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct Arguments {
                $(#[doc = concat!("The argument `", stringify!($argument), "`.")] pub $argument: $type,)*
            }

            /// The kernel, for the host to start.
            #[derive(Clone, Copy, Debug)]
            pub struct Entry;

            impl $crate::kernel::Kernel for Entry {
                const NAME: &'static ::core::ffi::CStr = match ::core::ffi::CStr::from_bytes_with_nul(
                    concat!("gpufs_kernel_", stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => panic!("an identifier holds no NUL"),
                };
                type Arguments = Arguments;
                #[allow(unused_variables, reason = "a kernel may have no arguments")]
                fn run(session: &'static $crate::kernel::Session, arguments: Arguments) {
                    super::$name($crate::Fs::new(session) $(, arguments.$argument)*);
                }
            }

            /// The entry point in a device program.
            ///
            /// # Safety
            /// Called by a launch, with a session's tables on this device.
            #[cfg(target_arch = "nvptx64")]
            #[unsafe(export_name = concat!("gpufs_kernel_", stringify!($name)))]
            pub unsafe extern "ptx-kernel" fn entry(session: &'static $crate::kernel::Session, arguments: Arguments) {
                <Entry as $crate::kernel::Kernel>::run(session, arguments);
            }
        }
    };
}
