//! Bounds and digests of skill files.

use super::*;

fn files(list: &[(&str, &str)]) -> Files {
    let mut files = Files::default();
    for (path, content) in list {
        files.add(path, content.as_bytes().to_vec()).unwrap();
    }
    files
}

#[test]
fn a_digest_depends_on_every_path_and_byte_and_on_nothing_else() {
    let one = files(&[("a", "1"), ("b/c", "2")]);
    // Golden value: digests are recorded in receipts and must never change their meaning.
    assert_eq!(
        one.digest().to_string(),
        Digest::of(
            b"skill 1\n\
              6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b 1 a\n\
              d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35 1 b/c\n"
        )
        .to_string()
    );
    assert_eq!(one.digest(), files(&[("b/c", "2"), ("a", "1")]).digest());
    for other in [
        files(&[("a", "1"), ("b/c", "3")]),
        files(&[("a", "1"), ("b/d", "2")]),
        files(&[("a", "1")]),
        files(&[("a", "1"), ("b/c", "2"), ("d", "")]),
    ] {
        assert_ne!(one.digest(), other.digest());
    }
}

#[test]
fn only_plain_paths_are_taken() {
    for good in ["handler.py", "data/words.txt", "a b/ä.txt", "..a", "a.."] {
        assert_eq!(check_path(good), Ok(()), "{good}");
    }
    for bad in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a\\b", "c:x", "a\nb"]
    {
        assert_eq!(check_path(bad), Err(Problem::Path), "{bad:?}");
    }
    assert_eq!(check_path(&"x".repeat(201)), Err(Problem::LongPath));
    assert_eq!(check_path("a/b/c/d/e/f/g/h/i/j"), Err(Problem::LongPath));
}

#[test]
fn number_and_size_of_files_are_bounded() {
    let mut many = Files::default();
    for index in 0..MAX_FILES {
        many.add(&format!("f{index}"), Vec::new()).unwrap();
    }
    assert_eq!(many.add("one-more", Vec::new()), Err(Problem::Many));

    let mut large = Files::default();
    let most = usize::try_from(MAX_FILE_BYTES).unwrap();
    assert_eq!(large.add("x", vec![0; most + 1]), Err(Problem::Large));
    for index in 0..MAX_TOTAL_BYTES / MAX_FILE_BYTES {
        large.add(&format!("f{index}"), vec![0; most]).unwrap();
    }
    assert_eq!(large.add("x", vec![0]), Err(Problem::TotalLarge));
    assert_eq!(large.room(), 0);
}

#[test]
fn a_folder_around_everything_is_taken_off() {
    let plain = files(&[("skill.yaml", ""), ("lib/x.py", "")]);
    assert_eq!(files(&[("s/skill.yaml", ""), ("s/lib/x.py", "")]).unwrapped(), plain);
    assert_eq!(plain.clone().unwrapped(), plain);
    let two = files(&[("a/skill.yaml", ""), ("b/skill.yaml", "")]);
    assert_eq!(two.clone().unwrapped(), two);
}
