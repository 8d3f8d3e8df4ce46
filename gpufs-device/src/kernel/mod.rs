//! `kernel!`: one declaration for every device. What may travel to it:
//!
//! | what | how |
//! |---|---|
//! | numbers, and structures of [`portable!`](crate::portable) | as they are |
//! | a value that all threads share | [`Shared`]: `Session::place` of the host places it in the device's memory |
//! | a stream that the host opened | a [`File`](crate::File) is a kernel's argument; the host hands over its [`FileHandle`] |
//! | a path | [`Path`], a field of a placed value |
//! | what one kernel leaves for the next | [`Handoff`], likewise |

mod argument;
mod handoff;
mod path;

pub use argument::{Argument, FileHandle};
pub use gpufs_core::kernel::{Kernel, Portable, Shared};
pub use gpufs_core::session::SessionTables;
pub use handoff::Handoff;
pub use path::Path;

/// Declares a structure that host and device share: each field is [`Portable`], the layout C's.
///
/// ```
/// gpufs_device::portable! {
///     /// What every thread needs.
///     pub struct Job {
///         /// How often.
///         pub rounds: u32,
///     }
/// }
/// # fn main() { let _ = Job { rounds: 1 }; }
/// ```
///
/// Nothing may be done when it is dropped, since the host copies it; also where a program has an `assert!` of its own, this does not compile:
///
/// ```compile_fail,E0080
/// #[allow(unused_macros)]
/// macro_rules! assert {
///     ($($condition:tt)*) => {};
/// }
///
/// gpufs_device::portable! {
///     /// A number that says good-bye.
///     pub struct Job {
///         /// How often.
///         pub rounds: u32,
///     }
/// }
///
/// impl Drop for Job {
///     fn drop(&mut self) {}
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! portable {
    ($(#[$attribute:meta])* pub struct $name:ident {
        $($(#[$inner:meta])* $visible:vis $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$attribute])*
        #[repr(C)]
        pub struct $name {
            $($(#[$inner])* $visible $field: $type,)*
        }

        const _: () = {
            const fn portable<T: $crate::kernel::Portable>() {}
            $(portable::<$type>();)*
            ::core::assert!(!::core::mem::needs_drop::<$name>(), "nothing is done when it is dropped");
        };

        // SAFETY:
        // - `repr(C)`, and each field is portable, as checked above
        #[allow(unsafe_code, reason = "the promise is checked above")]
        unsafe impl $crate::kernel::Portable for $name {}
    };
}

/// Declares a kernel: an ordinary function that any thread of the grid runs, and a module of the same name with
///
/// - `Arguments`, what a launch hands to every thread;
/// - `Entry`, which the host starts: `session.start::<name::Entry>(grid, name::Arguments { … })`;
/// - in a device build, the entry point of that name.
///
/// The first parameter is the session. The others are an [`Argument`] each: [`Portable`] and `Copy`, since they travel to the device by value, or
/// a [`File`](crate::File), for which the host hands over the [`FileHandle`] that its `Session::fopen` gave.
///
/// ```
/// use gpufs_device::kernel::{Handoff, Shared};
/// use gpufs_device::warp::global_thread;
/// use gpufs_device::{Errno, File, fprintf};
///
/// gpufs_device::kernel! {
///     /// Every thread prints its number, in a file that the host opened, and leaves an error for the host.
///     pub fn greet(fs: Fs, log: File, failed: Shared<Handoff<Errno>>, rounds: u32) {
///         for round in 0..rounds {
///             if let Err(errno) = fprintf!(log, c"thread %lu, round %u\n", global_thread(), round) {
///                 failed.with(fs, |failed| failed.put(errno));
///             }
///         }
///     }
/// }
/// # fn main() { let _ = |log, failed| greet::Arguments { log, failed, rounds: 3 }; }
/// ```
///
/// # Registers
/// A multiprocessor of an NVIDIA GPU has 65,536 registers, shared by the threads that are there at once. Assemblers give a kernel as many as its
/// functions can use, up to 255 a thread, and then 256 threads are all that there is room for. A kernel that waits for memory and wants more
/// threads says so **before all else**, as CUDA C++ does by `__maxnreg__` or `__launch_bounds__`: with 64 registers there are 1,024 threads.
/// What does not fit then goes through memory. It becomes PTX's `.maxnreg` by `gpufs_build::finish`, which `cargo gpufs` and build scripts with
/// `gpufs-build` call: PTX that rustc made by hand has no bound. GPUs of AMD and CPU lanes do without.
///
/// ```
/// gpufs_device::kernel! {
///     #[maxnreg(64)]
///     /// Adds up a file's numbers.
///     pub fn total(fs: Fs, numbers: Mapping, sum: Shared<Handoff<u64>>) {
///         let _ = (fs, numbers, sum);
///     }
/// }
/// # use gpufs_device::{kernel::{Handoff, Shared}, view::Mapping};
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! kernel {
    (#[maxnreg($registers:literal)] $(#[$attribute:meta])* pub fn $name:ident $($rest:tt)*) => {
        $crate::kernel! { $(#[$attribute])* pub fn $name $($rest)* }

        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            // Read by `gpufs_build::finish`, which writes the directive.
            #[allow(unsafe_code, reason = "named after the kernel, whose name nothing else has")]
            #[unsafe(export_name = ::core::concat!("gpufs_maxnreg_", ::core::stringify!($name)))]
            pub static REGISTERS: u32 = $registers;
        };
    };
    ($(#[$attribute:meta])* pub fn $name:ident($fs:ident: Fs $(, $argument:ident: $type:ty)* $(,)?) $body:block) => {
        $(#[$attribute])*
        pub fn $name($fs: $crate::Fs $(, $argument: $type)*) $body

        #[doc = ::core::concat!("How the host starts [`", ::core::stringify!($name), "()`].")]
        pub mod $name {
            #[allow(unused_imports, reason = "the types of the arguments")]
            use super::*;

            /// What a launch hands to every thread.
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct Arguments {
                $(
                    #[doc = ::core::concat!("The argument `", ::core::stringify!($argument), "`.")]
                    pub $argument: <$type as $crate::kernel::Argument>::Sent,
                )*
            }

            /// The kernel, for the host to start.
            #[derive(Clone, Copy, Debug)]
            pub struct Entry;

            // SAFETY:
            // - the entry point of this name, below, is `run`, with the same arguments
            // - the session is used through an `Fs` alone
            #[allow(unsafe_code, reason = "the promise is kept here")]
            unsafe impl $crate::kernel::Kernel for Entry {
                const NAME: &'static ::core::ffi::CStr = match ::core::ffi::CStr::from_bytes_with_nul(
                    ::core::concat!("gpufs_kernel_", ::core::stringify!($name), "\0").as_bytes(),
                ) {
                    ::core::result::Result::Ok(name) => name,
                    ::core::result::Result::Err(_) => ::core::panic!("an identifier holds no NUL"),
                };
                type Arguments = Arguments;
                #[allow(unused_variables, reason = "a kernel may have no arguments")]
                fn run(session: &'static $crate::kernel::SessionTables, arguments: Arguments) {
                    // SAFETY:
                    // - a session's tables, which it gives to the launch that runs this, and which it waits for before it closes
                    let fs = unsafe { $crate::Fs::new(session) };
                    super::$name(fs $(, <$type as $crate::kernel::Argument>::receive(arguments.$argument, fs))*);
                }
            }

            /// The entry point in a device program.
            ///
            /// # Safety
            /// Called by a launch, with a session's tables on this device.
            #[cfg(target_arch = "nvptx64")]
            #[unsafe(export_name = ::core::concat!("gpufs_kernel_", ::core::stringify!($name)))]
            pub unsafe extern "ptx-kernel" fn entry(session: &'static $crate::kernel::SessionTables, arguments: Arguments) {
                <Entry as $crate::kernel::Kernel>::run(session, arguments);
            }

            /// The entry point in a device program. Its arguments are given by address: this calling convention hands over no structure.
            ///
            /// # Safety
            /// Called by a launch, with a session's tables and arguments on this device.
            #[cfg(target_arch = "amdgpu")]
            #[unsafe(export_name = ::core::concat!("gpufs_kernel_", ::core::stringify!($name)))]
            #[allow(improper_gpu_kernel_arg, reason = "thin pointers, which are numbers to a launch")]
            pub unsafe extern "gpu-kernel" fn entry(
                session: &'static $crate::kernel::SessionTables,
                arguments: &'static Arguments,
            ) {
                <Entry as $crate::kernel::Kernel>::run(session, *arguments);
            }
        }
    };
}
