//! SCRAM-SHA-256 (RFC 5802 and 7677), as far as a server needs it.

use std::fs::File;
use std::io::{self, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// How often a password is hashed, as in PostgreSQL.
const ITERATIONS: u32 = 4096;

const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;

/// The keys of a password; it cannot be read from them.
#[derive(Clone)]
pub struct Password {
    salt: [u8; SALT_BYTES],
    stored: [u8; 32],
    server: [u8; 32],
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("keys may have any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// The password, hashed again and again.
fn salted(password: &str, salt: &[u8]) -> [u8; 32] {
    let mut last = hmac(password.as_bytes(), &[salt, &1u32.to_be_bytes()]);
    let mut all = last;
    for _ in 1..ITERATIONS {
        last = hmac(password.as_bytes(), &[&last]);
        all.iter_mut().zip(last).for_each(|(byte, other)| *byte ^= other);
    }
    all
}

impl Password {
    /// The keys of a password with new salt.
    ///
    /// # Errors
    /// That the system gives no random bytes.
    pub fn new(password: &str) -> io::Result<Self> {
        Ok(Self::with_salt(password, random()?))
    }

    fn with_salt(password: &str, salt: [u8; SALT_BYTES]) -> Self {
        let salted = salted(password, &salt);
        let stored = Sha256::digest(hmac(&salted, &[b"Client Key"])).into();
        Self { salt, stored, server: hmac(&salted, &[b"Server Key"]) }
    }
}

/// A random number for a connection, by which its statements can be cancelled.
pub(crate) fn secret() -> io::Result<i32> {
    random().map(i32::from_be_bytes)
}

/// An exchange after the client's first message.
pub(crate) struct Exchange<'p> {
    password: &'p Password,
    nonce: String,
    /// The client's first message without its head.
    client_first: String,
    /// The server's answer.
    pub(crate) server_first: String,
    /// The head of the client's first message.
    head: String,
}

impl<'p> Exchange<'p> {
    /// Answers a client's first message; `None` if it is none.
    ///
    /// # Errors
    /// That the system gives no random bytes.
    pub(crate) fn begin(password: &'p Password, message: &[u8]) -> io::Result<Option<Self>> {
        let nonce = STANDARD.encode(random::<NONCE_BYTES>()?);
        Ok(Self::with_nonce(password, message, &nonce))
    }

    fn with_nonce(password: &'p Password, message: &[u8], nonce: &str) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        // No channel binding, and no other identity: "n,," or "y,,".
        let (head, bare) = text.split_at_checked(3)?;
        if head != "n,," && head != "y,," {
            return None;
        }
        let client_nonce = bare.split(',').find_map(|part| part.strip_prefix("r="))?;
        let nonce = format!("{client_nonce}{nonce}");
        let salt = STANDARD.encode(password.salt);
        Some(Self {
            password,
            client_first: bare.to_owned(),
            server_first: format!("r={nonce},s={salt},i={ITERATIONS}"),
            nonce,
            head: head.to_owned(),
        })
    }

    /// The server's last message, if the client's proves that it knows the password.
    pub(crate) fn finish(&self, message: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(message).ok()?;
        let (rest, proof) = text.rsplit_once(",p=")?;
        let mut parts = rest.split(',');
        let binding = parts.next()?.strip_prefix("c=")?;
        let is_ours = parts.next()?.strip_prefix("r=")? == self.nonce
            && STANDARD.decode(binding).ok()? == self.head.as_bytes();
        let proof: [u8; 32] = STANDARD.decode(proof).ok()?.try_into().ok()?;
        let message = format!("{},{},{rest}", self.client_first, self.server_first);
        let signature = hmac(&self.password.stored, &[message.as_bytes()]);
        let key: Vec<u8> = proof.iter().zip(signature).map(|(one, other)| one ^ other).collect();
        let found: [u8; 32] = Sha256::digest(key).into();
        // All bytes are compared, however many are equal.
        let differences = found.iter().zip(self.password.stored);
        let differences = differences.fold(0, |all, (one, other)| all | (one ^ other));
        if !is_ours || differences != 0 {
            return None;
        }
        let signature = hmac(&self.password.server, &[message.as_bytes()]);
        Some(format!("v={}", STANDARD.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_rfc_succeeds() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap().try_into().unwrap();
        let password = Password::with_salt("pencil", salt);
        let first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let exchange = Exchange::with_nonce(&password, first, nonce).unwrap();
        assert_eq!(
            exchange.server_first,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let answer = exchange.finish(last.as_bytes()).unwrap();
        assert_eq!(answer, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        let wrong = last.replace("dHzb", "dHzc");
        assert_eq!(exchange.finish(wrong.as_bytes()), None);
        assert_eq!(exchange.finish(b"c=biws,r=other,p=AAAA"), None);
        assert!(Exchange::with_nonce(&password, b"p=tls-unique,,n=,r=x", nonce).is_none());
    }
}
