//! `src/lib.rs` says what `hakmem.h` says: the same functions, the same fields in the same order, the same version.

use std::ffi::CStr;

const HEADER: &str = include_str!("../c/include/hakmem.h");
const BINDING: &str = include_str!("../src/lib.rs");

/// The names between a line that starts with `open` and the next `close`, as `field` finds them in a line.
fn fields(text: &str, open: &str, close: &str, field: fn(&str) -> Option<String>) -> Vec<String> {
    let start = text
        .find(open)
        .unwrap_or_else(|| panic!("there is no {open:?}"));
    let body = &text[start..];
    let end = body.find(close).expect("it ends");
    body[..end].lines().skip(1).filter_map(field).collect()
}

fn field_of_c(line: &str) -> Option<String> {
    let (kind, rest) = line.trim().split_once(' ')?;
    let bits = kind.strip_prefix("uint")?.strip_suffix("_t")?;
    Some(format!("{}: u{bits}", rest.split_once(';')?.0))
}

fn field_of_rust(line: &str) -> Option<String> {
    Some(line.trim().strip_prefix("pub ")?.strip_suffix(',')?.into())
}

#[test]
fn structures_have_the_same_fields() {
    for name in ["hak_stats", "hak_memory_stats", "hak_class_stats"] {
        let in_c = fields(HEADER, &format!("struct {name} {{"), "};", field_of_c);
        let in_rust = fields(
            BINDING,
            &format!("pub struct {name} {{"),
            "}",
            field_of_rust,
        );
        assert!(in_c.len() > 5, "{in_c:?}");
        assert_eq!(in_c, in_rust, "{name}");
    }
}

#[test]
fn functions_are_all_there() {
    let mut in_c: Vec<&str> = Vec::new();
    for line in HEADER
        .lines()
        .filter_map(|line| line.strip_prefix("HAK_API "))
    {
        let head = line.split_once('(').expect("a function").0;
        in_c.push(head.rsplit([' ', '*']).next().unwrap());
    }
    let mut in_rust: Vec<&str> = BINDING
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub fn "))
        .map(|line| line.split_once('(').unwrap().0)
        .filter(|name| !name.starts_with("hak_rust_"))
        .collect();
    in_c.sort_unstable();
    in_rust.sort_unstable();
    assert!(in_c.len() > 15, "{in_c:?}");
    assert_eq!(in_c, in_rust);
}

#[test]
fn version_of_the_crate_is_the_librarys() {
    let version = unsafe { CStr::from_ptr(hakmem_sys::hak_version()) };
    assert_eq!(version.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn variant_is_the_features() {
    let variant = unsafe { CStr::from_ptr(hakmem_sys::hak_variant()) };
    let expected = if cfg!(feature = "hardened") {
        "hardened"
    } else {
        "standard"
    };
    assert_eq!(variant.to_str().unwrap(), expected);
}
