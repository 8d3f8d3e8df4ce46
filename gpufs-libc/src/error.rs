//! `strerror(3)`, in the words of the C library.

use core::ffi::{CStr, c_char, c_int};

use gpufs_core::abi::Errno;

/// What an error number says. 0 is "Success".
#[must_use]
pub const fn message(number: c_int) -> &'static CStr {
    if number == 0 {
        c"Success"
    } else if number < 0 || number > 4095 {
        c"Unknown error"
    } else {
        Errno::from_number(number).message()
    }
}

/// `strerror(3)`. The text is a constant: the program must not change it, as C says.
#[cfg_attr(any(target_arch = "nvptx64", target_arch = "amdgpu"), unsafe(no_mangle))]
#[must_use]
pub extern "C" fn strerror(number: c_int) -> *const c_char {
    message(number).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn numbers_have_the_systems_words() {
        assert_eq!(message(0), c"Success");
        assert_eq!(message(2), c"No such file or directory");
        assert_eq!(message(-1), c"Unknown error");
        assert_eq!(message(4095), c"Unknown error");
    }
}
