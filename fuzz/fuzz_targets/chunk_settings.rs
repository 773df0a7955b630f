//! Any number and words as a chunker's settings are refused, or are valid settings that encode to
//! the same words and cut data.

#![no_main]

use ibid_chunk::{Chunker, Settings};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, Vec<u32>)| {
    let (number, words) = input;
    // Most numbers are unknown, so choose the known ones often.
    let number = if number < 0xf0 {
        u16::from(number % 10)
    } else {
        u16::from(number) << 8
    };
    let Ok(settings) = Settings::from_words(number, &words) else {
        return;
    };
    assert_eq!((settings.number(), settings.to_words()), (number, words));
    settings.validate().expect("what was read is valid");
    let values = settings.parameter_values();
    let pairs = values.iter().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(settings.with_parameters(pairs), Ok(settings.clone()));
    let sizes = (settings.size_min(), settings.size_average(), settings.size_max());
    assert!(64 <= sizes.0 && sizes.0 <= sizes.1 && sizes.1 <= sizes.2 && sizes.2 <= 16 << 20);

    let chunker = Chunker::new(&settings).expect("valid settings");
    let data = [1, 2, 3, 250].repeat(1000);
    let len = chunker.cut(&data);
    assert!(len <= data.len().min(sizes.2) && len >= data.len().min(sizes.0));
});
