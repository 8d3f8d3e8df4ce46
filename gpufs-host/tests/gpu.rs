//! What a machine without a GPU says to whoever asks for one.

#[cfg(feature = "cuda")]
#[test]
fn without_an_nvidia_gpu_the_error_says_so() {
    let open = |program: &[u8]| gpufs_host::Session::builder().cuda(0, program).err();
    let ptx = b".version 7.0\n.target sm_70\n.address_size 64\n";
    match open(ptx).map(|error| error.to_string()) {
        None => println!("SKIP without_an_nvidia_gpu_the_error_says_so: there is one"),
        Some(said) => {
            assert!(
                ["libcuda.so", "no NVIDIA GPU", "shows no GPU"].iter().any(|part| said.contains(part)),
                "{said}"
            );
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
