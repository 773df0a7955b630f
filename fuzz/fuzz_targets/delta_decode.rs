//! Any bytes as a delta against any base give an error, or a target of the stated length within the
//! limit. The outline gives the same target.

#![no_main]

use ibid_delta::advanced::describe;
use ibid_delta::{DeltaDecoder, Error};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8], &[u8])| {
    let (target_max, base, delta) = input;
    let target_max = usize::from(target_max);
    let mut target = Vec::new();
    let decoded = DeltaDecoder::new().decode(base, delta, target_max, &mut target);
    let outline = DeltaDecoder::new().outline(base.len(), delta, target_max, |stretches, out| {
        for stretch in stretches {
            out.extend_from_slice(&base[stretch.start as usize..stretch.end as usize]);
        }
        Ok::<(), Error>(())
    });
    let assembled = outline.map(|outline| {
        let mut bytes = Vec::new();
        outline.assemble(base, &mut bytes);
        bytes
    });
    assert_eq!(assembled, decoded.clone().map(|()| target.clone()));
    match decoded {
        Ok(()) => assert_eq!(describe(delta).map(|(_, length)| length), Ok(target.len())),
        Err(_) => assert!(target.is_empty()),
    }
    assert!(target.capacity() <= 64 + 2 * target_max);
});
