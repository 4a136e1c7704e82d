//! Base64 of RFC 4648: the URL alphabet for secrets, the usual one for everything else.

const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const USUAL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// In the URL alphabet, without padding.
pub(crate) fn encode_url(bytes: &[u8]) -> String {
    encode_with(URL, bytes)
}

/// In the usual alphabet, with padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = encode_with(USUAL, bytes);
    text.extend(std::iter::repeat_n('=', text.len().wrapping_neg() % 4));
    text
}

fn encode_with(alphabet: &[u8; 64], bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(group);
        for digit in 0..=chunk.len() {
            let index = (bits >> (18 - 6 * digit)) & 63;
            out.push(char::from(alphabet[index as usize]));
        }
    }
    out
}

/// Reads the usual alphabet, with or without padding; `None` for anything else.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if text.len() - digits.len() > 2 || digits.len() % 4 == 1 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let mut bits = 0;
        for digit in chunk {
            bits = bits << 6 | value(*digit)?;
        }
        bits <<= 6 * (4 - chunk.len());
        out.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Some(out)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in vectors {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode(coded).as_deref(), Some(plain.as_bytes()));
            assert_eq!(decode(coded.trim_end_matches('=')).as_deref(), Some(plain.as_bytes()));
        }
        assert_eq!(encode_url(&[0xfb, 0xff]), "-_8");
        for bad in ["Z", "Zm9v!", "====", "-_8", "Zg===", "Z g="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
