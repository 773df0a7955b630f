//! Any bytes as a key slot: parsed or refused, and never unlocked by a password that did not make
//! it.

#![no_main]

use ibid_format::slot::{self, Slot};
use ibid_format::{FileId, Keys, MasterKey};
use libfuzzer_sys::fuzz_target;

const FILE: FileId = FileId([1; 16]);

fuzz_target!(|bytes: &[u8]| {
    // The length is fixed, so the input is cut or padded to it.
    let mut file = b"ibidkey\x01".to_vec();
    file.extend_from_slice(bytes);
    file.resize(slot::LIMIT as usize, 0);
    slot::set_repository(&mut file, FileId([2; 16]));
    let _ = Slot::parse(FILE, bytes);
    let Ok(slot) = Slot::parse(FILE, &file) else { return };
    assert!(
        slot.note(&Keys::encrypted(slot.repository(), &MasterKey::from_bytes([0; 32])))
            .is_err()
    );
    if slot.cost().passes == 1 {
        assert!(slot.unlock(b"", 64).is_err());
    }
});
