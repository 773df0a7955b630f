//! Backends can be listed, named and forced, and a backend that this CPU lacks is an error.

use ibid_simd::{Backend, BackendError};

#[test]
fn the_list_starts_with_scalar_and_ends_with_the_best() {
    let all: Vec<Backend> = Backend::available().collect();
    assert_eq!(all.first(), Some(&Backend::scalar()));
    assert_eq!(all.last(), Some(&Backend::best()));
}

#[test]
fn every_listed_backend_is_found_by_its_name() {
    for backend in Backend::available() {
        assert_eq!(Backend::from_name(backend.name()), Ok(backend));
        assert_eq!(backend.name().parse(), Ok(backend));
        assert_eq!(Backend::from_setting(Some(backend.name())), Ok(backend));
    }
}

#[test]
fn names_never_change() {
    let known = ["scalar", "neon", "sse41", "avx2", "avx512", "avx512-gather"];
    assert!(Backend::available().all(|backend| known.contains(&backend.name())));
    for name in known {
        match Backend::from_name(name) {
            Ok(backend) => assert_eq!(backend.to_string(), name),
            Err(error) => assert_eq!(error, BackendError::Missing { name }),
        }
    }
}

#[test]
fn a_setting_is_automatic_or_a_name_in_any_case() {
    for automatic in [None, Some(""), Some("  "), Some("auto"), Some("AUTO")] {
        assert_eq!(Backend::from_setting(automatic), Ok(Backend::best()));
    }
    assert_eq!(Backend::from_setting(Some(" Scalar\n")), Ok(Backend::scalar()));
}

#[test]
fn an_unknown_name_is_refused_with_the_names_that_exist() {
    let error = Backend::from_setting(Some("mmx")).expect_err("nobody has it");
    assert_eq!(
        error,
        BackendError::Unknown {
            found: "mmx".to_owned()
        }
    );
    assert_eq!(
        error.to_string(),
        "no vector backend is called \"mmx\": expected auto, scalar, neon, sse41, avx2, avx512, avx512-gather"
    );
}

#[test]
fn gathers_are_for_those_who_name_them() {
    assert!(Backend::available().all(|backend| !backend.gathers()));
    match (Backend::from_name("avx512"), Backend::from_name("avx512-gather")) {
        (Ok(_), Ok(gathering)) => {
            assert!(gathering.gathers());
            assert_eq!(gathering.name().parse(), Ok(gathering));
            assert_ne!(gathering, Backend::best());
        }
        (Err(_), Err(_)) => assert!(Backend::available().all(|backend| backend.name() != "avx512")),
        both => panic!("one without the other: {both:?}"),
    }
}
