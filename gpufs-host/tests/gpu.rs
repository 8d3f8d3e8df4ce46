//! The errors of a session on a GPU where the machine has none.

/// What the error of a session on GPU 0 says on this machine; none where there is such a GPU.
#[cfg(feature = "cuda")]
fn nvidia_error() -> Option<&'static str> {
    use cudarc::driver::{result, sys};
    #[expect(unsafe_code, reason = "loads the driver")]
    // SAFETY:
    // - loads a library by its name; its initializers are the driver's
    if !unsafe { sys::is_culib_present() } {
        return Some("libcuda.so was not found: install the NVIDIA driver, or use CPU lanes");
    }
    match result::init() {
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => {
            Some("starting the NVIDIA driver: CUDA_ERROR_NO_DEVICE")
        }
        Err(_) => Some("starting the NVIDIA driver: CUDA_ERROR_"),
        Ok(()) if result::device::get_count() == Ok(0) => {
            Some("there is no NVIDIA GPU here that the driver sees; CPU lanes run everywhere")
        }
        Ok(()) => None,
    }
}

#[cfg(feature = "cuda")]
#[test]
fn without_an_nvidia_gpu_the_error_says_so() {
    let open = |program: &[u8]| gpufs_host::Session::builder().cuda(0, program).err();
    let ptx = b".version 7.0\n.target sm_70\n.address_size 64\n";
    match nvidia_error() {
        None => println!("SKIP without_an_nvidia_gpu_the_error_says_so: there is one"),
        Some(wanted) => {
            let said = open(ptx).expect("an error, as there is no GPU").to_string();
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
    }
    let mut code_object = b"\x7fELF\x02\x01\x01".to_vec();
    code_object.resize(64, 0);
    code_object[18] = 224;
    let said = open(&code_object).expect("a program for the wrong GPU").to_string();
    assert!(said.contains("AMD"), "{said}");
}

#[cfg(feature = "hip")]
#[test]
fn without_an_amd_gpu_the_error_says_so() {
    let open = |program: &[u8]| gpufs_host::Session::builder().hip(0, program).err();
    let mut code_object = b"\x7fELF\x02\x01\x01".to_vec();
    code_object.resize(64, 0);
    code_object[18] = 224;
    let said = open(&code_object).expect("a code object without code").to_string();
    if said.contains("loading the device program") {
        return println!("SKIP without_an_amd_gpu_the_error_says_so: there is one");
    }
    assert!(said.contains("there is no AMD GPU here"), "{said}");
    let said = open(b".version 7.0\n").expect("a program for the wrong GPU").to_string();
    assert!(said.contains("for NVIDIA"), "{said}");
}
