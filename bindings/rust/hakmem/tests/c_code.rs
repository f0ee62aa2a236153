//! With the feature `override` the memory of C code is hakmem's, too.
#![cfg(feature = "override")]

use std::ffi::{c_char, c_void, CStr};
use std::ptr;

use hakmem as _;

extern "C" {
    fn strdup(text: *const c_char) -> *mut c_char;
    fn free(block: *mut c_void);
    fn realpath(path: *const c_char, to: *mut c_char) -> *mut c_char;
}

#[test]
fn libc_allocates_in_hakmem() {
    let text: &CStr = c"a text that libc copies";
    unsafe {
        for block in [
            strdup(text.as_ptr()),
            realpath(c"/".as_ptr(), ptr::null_mut()),
        ] {
            assert!(!block.is_null());
            assert!(hakmem::owns(block));
            free(block.cast());
        }
    }
    assert!(
        hakmem::owns(vec![1u8; 100].as_ptr()),
        "Rust's default is malloc"
    );
}
