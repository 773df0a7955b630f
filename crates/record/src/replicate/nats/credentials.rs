//! Files of credentials, as `nsc` makes them: a token that says who a client is, and the key that proves it.

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use ring::signature::Ed25519KeyPair;

use crate::error::Error;

/// The first bytes of the key of a user, before the key itself: the kinds *seed* and *user*, 5 bits each.
const SEED_OF_USER: [u8; 2] = [0x95, 0x00];
const SEED_BYTES: usize = 32;
/// The longest token, bytes.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// Who a client is, and the key that proves it.
pub(super) struct Credentials {
    pub(super) token: String,
    key: Ed25519KeyPair,
}

impl Credentials {
    /// Reads the contents of a file.
    ///
    /// # Errors
    /// [`Error::Certificate`].
    pub(super) fn read(file: &[u8]) -> Result<Credentials, Error> {
        let text = std::str::from_utf8(file).map_err(|_| refused("they are no text"))?;
        let token = part(text, "JWT").ok_or_else(|| refused("there is no JWT of a user in them"))?;
        let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if token.len() > TOKEN_BYTES_MAX || !token.bytes().all(is_of_token) {
            return Err(refused("the JWT in them is none"));
        }
        let seed = part(text, "SEED").ok_or_else(|| refused("there is no seed of a user's key in them"))?;
        let key = key(seed).ok_or_else(|| refused("the seed in them is none of a user's key, or was changed"))?;
        let token = token.to_owned();
        Ok(Credentials { token, key })
    }

    /// Returns the signature of what a server has drawn.
    pub(super) fn sign(&self, nonce: &str) -> String {
        BASE64URL_NOPAD.encode(self.key.sign(nonce.as_bytes()).as_ref())
    }
}

/// Returns the line after the one that begins a part whose name ends so.
fn part<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = text.lines().map(str::trim);
    let begins = |line: &str| line.starts_with("-----BEGIN ") && line.trim_end_matches('-').ends_with(name);
    lines.find(|line| begins(line))?;
    lines
        .find(|line| !line.is_empty())
        .filter(|line| !line.starts_with('-'))
}

/// Returns the key of a seed: base32 of its kind, the key, and a checksum over both.
fn key(seed: &str) -> Option<Ed25519KeyPair> {
    let bytes = BASE32_NOPAD.decode(seed.as_bytes()).ok()?;
    let (bytes, check) = bytes.split_last_chunk::<2>()?;
    let key = bytes.strip_prefix(&SEED_OF_USER)?;
    if key.len() != SEED_BYTES || crc16(bytes) != u16::from_le_bytes(*check) {
        return None;
    }
    Ed25519KeyPair::from_seed_unchecked(key).ok()
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc >> 15 {
            1 => crc << 1 ^ 0x1021,
            _ => crc << 1,
        })
    })
}

fn refused(found: &str) -> Error {
    let (what, found) = ("the credentials for NATS", found.to_owned());
    Error::Certificate { what, found }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, KeyPair, UnparsedPublicKey};

    use super::*;

    /// A pair of keys that the documentation of NATS shows.
    const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
    const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

    fn file(token: &str, seed: &str) -> String {
        format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             ************************* IMPORTANT *************************\nNKEY Seed printed below can be used to \
             sign and prove identity.\n\n-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }

    #[test]
    fn a_checksum_is_that_of_its_definition() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn a_file_is_read_and_its_key_signs() {
        let credentials = Credentials::read(file("eyJ0eXAi.eyJqdGki.c2ln-_", SEED).as_bytes()).unwrap();
        assert_eq!(credentials.token, "eyJ0eXAi.eyJqdGki.c2ln-_");
        let public = credentials.key.public_key().as_ref();
        let shown = BASE32_NOPAD.decode(PUBLIC.as_bytes()).unwrap();
        // A public key has one byte of its kind before it, and a checksum behind.
        assert_eq!((shown[0], &shown[1..33]), (20 << 3, public));
        let signature = BASE64URL_NOPAD.decode(credentials.sign("a nonce").as_bytes()).unwrap();
        UnparsedPublicKey::new(&ED25519, public)
            .verify(b"a nonce", &signature)
            .unwrap();
    }

    #[test]
    fn what_is_no_file_of_credentials_is_refused_with_what_it_lacks() {
        let whole = file("eyJ0eXAi.eyJqdGki.c2ln", SEED);
        let flipped = SEED.replace("SUACS", "SUACT");
        for (file, why) in [
            (String::new(), "no JWT"),
            (whole.replace("BEGIN NATS", "END NATS"), "no JWT"),
            (whole.replace(SEED, ""), "no seed"),
            (whole.replace(SEED, &flipped), "was changed"),
            (whole.replace(SEED, "SAAA"), "was changed"),
            (whole.replace(SEED, &SEED.to_lowercase()), "was changed"),
            (whole.replace("eyJ0", "e J0"), "JWT in them is none"),
            (
                whole.replace("eyJ0", &"e".repeat(TOKEN_BYTES_MAX)),
                "JWT in them is none",
            ),
        ] {
            let error = Credentials::read(file.as_bytes()).err().unwrap().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(Credentials::read(&[0xff]).is_err());
    }
}
