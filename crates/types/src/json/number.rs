//! Notation of numbers in Python and ECMAScript, from the shortest digits that read back the same.

/// Notation of Python's `repr` for the value that its JSON reader makes of the literal.
pub(super) fn python(literal: &str) -> String {
    if is_integer(literal) {
        return integer(literal);
    }
    let (sign, digits, exponent) = shortest(literal);
    let body = if (-4..16).contains(&exponent) {
        let plain = positional(&digits, exponent);
        if plain.contains('.') { plain } else { plain + ".0" }
    } else {
        let way = if exponent < 0 { '-' } else { '+' };
        format!("{}e{way}{:02}", mantissa(&digits), exponent.abs())
    };
    format!("{sign}{body}")
}

/// Notation of ECMAScript, as RFC 8785 asks, except that an integer keeps all of its digits.
pub(super) fn ecmascript(literal: &str) -> String {
    if is_integer(literal) {
        return integer(literal);
    }
    let (sign, digits, exponent) = shortest(literal);
    if digits == "0" {
        return "0".to_owned();
    }
    let body = if (-6..21).contains(&exponent) {
        positional(&digits, exponent)
    } else {
        let way = if exponent < 0 { '-' } else { '+' };
        format!("{}e{way}{}", mantissa(&digits), exponent.abs())
    };
    format!("{sign}{body}")
}

fn is_integer(literal: &str) -> bool {
    !literal.contains(['.', 'e', 'E'])
}

/// Integer without a negative zero.
fn integer(literal: &str) -> String {
    if literal == "-0" { "0".to_owned() } else { literal.to_owned() }
}

/// Sign, digits without leading or trailing zeros, and the decimal exponent of the first digit.
fn shortest(literal: &str) -> (&'static str, String, i32) {
    let value: f64 = literal.parse().expect("checked by the parser");
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').expect("`{:e}` always has an exponent");
    let exponent = exponent.parse().expect("`{:e}` prints a whole exponent");
    (sign, mantissa.replace('.', ""), exponent)
}

fn mantissa(digits: &str) -> String {
    let (first, rest) = digits.split_at(1);
    if rest.is_empty() { first.to_owned() } else { format!("{first}.{rest}") }
}

fn positional(digits: &str, exponent: i32) -> String {
    let whole = exponent + 1;
    if whole <= 0 {
        return format!("0.{}{digits}", "0".repeat(whole.unsigned_abs() as usize));
    }
    let whole = whole as usize;
    if digits.len() <= whole {
        return format!("{digits}{}", "0".repeat(whole - digits.len()));
    }
    let (before, after) = digits.split_at(whole);
    format!("{before}.{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_jcs_specification_print_as_it_says() {
        let cases = [
            ("0.0", "0"),
            ("-0.0", "0"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("9007199254740992.0", "9007199254740992"),
            ("295147905179352830000.0", "295147905179352830000"),
            ("9.999999999999997e22", "9.999999999999997e+22"),
            ("1e23", "1e+23"),
            ("1.0000000000000001e23", "1.0000000000000001e+23"),
            ("333333333.33333325", "333333333.33333325"),
            ("0.000001", "0.000001"),
            ("1e-7", "1e-7"),
            ("-0.0000033333333333333333", "-0.0000033333333333333333"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
        ];
        for (literal, expected) in cases {
            assert_eq!(ecmascript(literal), expected, "{literal}");
        }
    }

    #[test]
    fn numbers_print_as_python_prints_them() {
        let cases = [
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("0.0", "0.0"),
            ("2.0", "2.0"),
            ("1e16", "1e+16"),
            ("1e15", "1000000000000000.0"),
            ("1e-7", "1e-07"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("123456.789e3", "123456789.0"),
            ("1e100", "1e+100"),
        ];
        for (literal, expected) in cases {
            assert_eq!(python(literal), expected, "{literal}");
        }
    }
}
