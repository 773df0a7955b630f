//! Any bytes as the text of a writer's key: an accepted one has one value, and its own text gives the same one.

#![no_main]

use ibid_format::writer::WriterKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(key) = WriterKey::parse(text) else {
        return;
    };
    let written = key.to_text();
    let again = WriterKey::parse(&written).expect("a key's own text is one");
    assert_eq!(*again.to_text(), *written);
    assert_eq!((again.repository(), again.id()), (key.repository(), key.id()));
    key.keys();
});
