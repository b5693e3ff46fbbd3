//! Lists of numbers as they are given on the command line.

use super::error::{Error, quote};

/// Reads `1,2,4..512` for the flag `flag`: numbers from 1, where `a..b` doubles from `a` as long as `b` is not passed.
/// Repeated numbers are taken once.
///
/// # Errors
/// One sentence when the list is empty, or an entry is no number from 1 to `most`, or a range runs backwards.
pub fn parse_list(flag: &str, text: &str, most: u32) -> Result<Vec<u32>, Error> {
    let wrong = |part: &str, problem: &str| {
        Error::value(
            format!("{flag} {}", quote(part)),
            problem,
            format!("give numbers from 1 to {most} such as 1,2,4 or 1..64"),
        )
    };
    let number = |part: &str, text: &str| match text.trim().parse::<u32>() {
        Ok(n) if (1..=most).contains(&n) => Ok(n),
        Ok(_) => Err(wrong(part, &format!("is not in 1 to {most}"))),
        Err(_) => Err(wrong(part, "is no list of numbers")),
    };
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once("..") {
            Some((first, last)) => (number(part, first)?, number(part, last)?),
            None => (number(part, part)?, number(part, part)?),
        };
        if first > last {
            return Err(wrong(part, "runs backwards"));
        }
        let doubling = std::iter::successors(Some(first), |n| n.checked_mul(2)).take_while(|&n| n <= last);
        for n in doubling {
            if !list.contains(&n) {
                list.push(n);
            }
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_double() {
        assert_eq!(parse_list("--batch", "1,2,4..512", 1 << 20).unwrap(), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(parse_list("--batch", "3..10, 3", 100).unwrap(), [3, 6]);
        assert_eq!(parse_list("--batch", "1..4294967295", u32::MAX).unwrap().len(), 32);
    }

    #[test]
    fn bad_lists_are_refused() {
        for text in ["", ",", "1,", "0", "-1", "1.5", "4..2", "..", "1..", "2000000", "99999999999", "one"] {
            let error = parse_list("--batch", text, 1 << 20).unwrap_err().to_string();
            assert!(error.starts_with("--batch `") && error.contains("1048576"), "{error}");
        }
    }
}
