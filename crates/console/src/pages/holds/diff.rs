//! The difference between two texts, line by line.

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// `same`, `added` or `removed`.
    pub(crate) kind: &'static str,
    /// Sign before the line.
    pub(crate) sign: char,
    pub(crate) text: String,
}

/// Lines that are compared; what follows is shown as removed and added.
const MAX_LINES: usize = 600;

/// The difference: common lines are those of a longest common subsequence.
pub(crate) fn lines(old: &str, new: &str) -> Vec<Line> {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let (a, b) = (&old[..old.len().min(MAX_LINES)], &new[..new.len().min(MAX_LINES)]);
    // `length[i][j]` is the length of a longest common subsequence of `a[i..]` and `b[j..]`.
    let mut length = vec![vec![0_u16; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            length[i][j] = match a[i] == b[j] {
                true => length[i + 1][j + 1] + 1,
                false => length[i + 1][j].max(length[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            out.push(line("same", ' ', a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && length[i + 1][j] >= length[i][j + 1]) {
            out.push(line("removed", '-', a[i]));
            i += 1;
        } else {
            out.push(line("added", '+', b[j]));
            j += 1;
        }
    }
    out.extend(old[a.len()..].iter().map(|text| line("removed", '-', text)));
    out.extend(new[b.len()..].iter().map(|text| line("added", '+', text)));
    out
}

fn line(kind: &'static str, sign: char, text: &str) -> Line {
    Line { kind, sign, text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_stand_between_common_ones() {
        let written: Vec<_> = lines("a\nb\nc", "a\nx\nc\nd")
            .into_iter()
            .map(|line| format!("{}{}", line.sign, line.text))
            .collect();
        assert_eq!(written, [" a", "-b", "+x", " c", "+d"]);
    }

    #[test]
    fn long_texts_are_bounded() {
        let long = "x\n".repeat(5_000);
        assert_eq!(lines(&long, &long).len(), 600 + 2 * 4_400);
    }
}
