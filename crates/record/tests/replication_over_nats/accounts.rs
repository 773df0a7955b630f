//! Accounts of NATS as an operator makes them: signed tokens, and files of credentials.

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

/// Kinds of keys, as they stand before one.
const OPERATOR: u8 = 14 << 3;
const ACCOUNT: u8 = 0;
const USER: u8 = 20 << 3;
const SEED: u8 = 18 << 3;

struct Key {
    kind: u8,
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0_u16;
    for byte in bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        }
    }
    crc
}

fn encoded(kind: &[u8], key: &[u8]) -> String {
    let mut bytes = [kind, key].concat();
    bytes.extend(crc16(&bytes).to_le_bytes());
    BASE32_NOPAD.encode(&bytes)
}

impl Key {
    fn new(kind: u8) -> Key {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).unwrap();
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        Key { kind, seed, pair }
    }

    fn public(&self) -> String {
        encoded(&[self.kind], self.pair.public_key().as_ref())
    }

    fn secret(&self) -> String {
        encoded(&[SEED | self.kind >> 5, (self.kind & 31) << 3], &self.seed)
    }

    /// Signs what is said of another key.
    fn token(&self, of: &Key, said: &Value) -> String {
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let head = part(&json!({"typ": "JWT", "alg": "ed25519-nkey"}));
        let claims = json!({
            "jti": "1", "iat": 1_700_000_000, "iss": self.public(), "sub": of.public(), "name": "test", "nats": said,
        });
        let signed = format!("{head}.{}", part(&claims));
        let signature = BASE64URL_NOPAD.encode(self.pair.sign(signed.as_bytes()).as_ref());
        format!("{signed}.{signature}")
    }
}

/// An operator with an account, and another account of the system.
pub(crate) struct Operator {
    /// What a server has to be told of it, as a file.
    pub(crate) configuration: String,
    account: Key,
}

impl Operator {
    pub(crate) fn new() -> Operator {
        let (operator, account, system) = (Key::new(OPERATOR), Key::new(ACCOUNT), Key::new(ACCOUNT));
        let limits = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
            "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
        });
        let mut of_system = limits.clone();
        for storage in ["mem_storage", "disk_storage", "streams", "consumer"] {
            of_system[storage] = json!(0);
        }
        let account_token =
            |key: &Key, limits: Value| operator.token(key, &json!({"type": "account", "version": 2, "limits": limits}));
        let configuration = format!(
            "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n  {}: {}\n  {}: {}\n}}\n",
            operator.token(&operator, &json!({"type": "operator", "version": 2})),
            system.public(),
            account.public(),
            account_token(&account, limits),
            system.public(),
            account_token(&system, of_system),
        );
        Operator { configuration, account }
    }

    /// Returns a file of credentials of a new user of the account.
    pub(crate) fn credentials(&self) -> String {
        let user = Key::new(USER);
        let said = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
        format!(
            "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            self.account.token(&user, &said),
            user.secret()
        )
    }
}
