//! F15 and F33: valid and hostile images.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use ringfence_sandbox::image::{
    Error, ImageInfo, ImageName, ImageSource, ImageStore, Import, LIMITS, Progress,
};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::support::{SECRET, file, gzip, tar, tar_entry, temp_dir, zstd};

struct Store {
    dir: TempDir,
    images: ImageStore,
}

impl Store {
    fn new() -> Self {
        let dir = temp_dir();
        fs::write(dir.path().join("secret"), SECRET).expect("secret");
        let images = ImageStore::open(&dir.path().join("images")).expect("store");
        Self { dir, images }
    }

    fn import_bytes(&self, bytes: &[u8]) -> Result<ImageInfo, Error> {
        let source = self.dir.path().join("source");
        fs::write(&source, bytes).expect("source");
        self.import(&source, false, false)
    }

    fn import(&self, source: &Path, copy: bool, replace: bool) -> Result<ImageInfo, Error> {
        let import = Import {
            name: name("demo"),
            source: source.into(),
            copy,
            replace,
            created_at: "2026-01-02T03:04:05Z".into(),
            limits: LIMITS,
        };
        self.images.import(&import, &mut |_| {})
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.images.rootfs(&name("demo")).expect("rootfs").path.join(path)
    }

    /// Checks that nothing was promoted, left over or touched outside.
    fn is_empty(&self) -> bool {
        let left = fs::read_dir(self.dir.path().join("images")).expect("read").count();
        let secret = fs::read_to_string(self.dir.path().join("secret")).expect("secret");
        left == 0 && self.images.list().expect("list").images.is_empty() && secret == SECRET
    }
}

fn name(text: &str) -> ImageName {
    text.parse().expect("a name")
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An OCI archive under construction.
#[derive(Default)]
struct Oci {
    entries: Vec<Vec<u8>>,
}

impl Oci {
    fn blob(&mut self, content: &[u8]) -> String {
        let hex = sha256(content);
        self.named(&format!("blobs/sha256/{hex}"), content);
        format!(r#"{{"digest":"sha256:{hex}","size":{}}}"#, content.len())
    }

    fn named(&mut self, name: &str, content: &[u8]) {
        self.entries.push(tar_entry(name.as_bytes(), b'0', b"", 0o644, content));
    }

    fn manifest(&mut self, layers: &[Vec<u8>]) -> String {
        let layers: Vec<_> = layers.iter().map(|layer| self.blob(layer)).collect();
        let config = self.blob(
            br#"{"architecture":"any","config":{"Env":["A=b"],"WorkingDir":"/srv","Cmd":["sh"],
                 "Entrypoint":null,"User":""},"rootfs":{"diff_ids":[]}}"#,
        );
        self.blob(format!(r#"{{"config":{config},"layers":[{}]}}"#, layers.join(",")).as_bytes())
    }

    fn index(mut self, descriptor: &str) -> Vec<u8> {
        self.named("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
        self.named("index.json", format!(r#"{{"manifests":[{descriptor}]}}"#).as_bytes());
        tar(&self.entries)
    }
}

fn oci(layers: &[Vec<u8>]) -> Vec<u8> {
    let mut oci = Oci::default();
    let manifest = oci.manifest(layers);
    oci.index(&manifest)
}

fn link(name: &str, target: &str) -> Vec<u8> {
    tar_entry(name.as_bytes(), b'2', target.as_bytes(), 0o777, b"")
}

#[test]
fn names_are_checked() {
    for bad in ["", "A", "-a", ".a", "a/b", "..", "a b", &"a".repeat(65)] {
        let refused = bad.parse::<ImageName>().expect_err(bad);
        assert_eq!(refused.code(), "image_name", "{bad}");
    }
    for good in ["a", "python-3.13_x", &"a".repeat(64)] {
        assert_eq!(good.parse::<ImageName>().expect(good).as_str(), good);
    }
}

#[test]
fn a_tarball_becomes_an_image_and_goes_again() {
    let plain = tar(&[
        tar_entry(b"./usr/bin/", b'5', b"", 0o755, b""),
        tar_entry(b"./usr/bin/su", b'0', b"", 0o4755, b"#!"),
        tar_entry(b"./usr/bin/also", b'1', b"./usr/bin/su", 0o4755, b""),
        link("./bin", "usr/bin"),
        link("./etc", "/../../../etc"),
        tar_entry(b"./tmp/", b'5', b"", 0o1777, b""),
    ]);
    for bytes in [plain.clone(), gzip(&plain), zstd(&plain)] {
        let store = Store::new();
        let info = store.import_bytes(&bytes).expect("import");
        assert_eq!(info.digest, Some(format!("sha256:{}", sha256(&bytes))));
        assert_eq!((&info.source, info.bytes, info.entries), (&ImageSource::Tarball, 2, 6));
        assert_eq!(store.images.list().expect("list").images, [info]);
        let su = fs::metadata(store.path("usr/bin/su")).expect("stat");
        assert_eq!((su.mode() & 0o7777, su.mtime(), su.nlink()), (0o755, 1, 2));
        assert_eq!(fs::metadata(store.path("tmp")).expect("stat").mode() & 0o7777, 0o1777);
        let etc = fs::read_link(store.path("etc")).expect("link");
        assert_eq!(etc, Path::new("/../../../etc"), "verbatim");
        store.images.remove(&name("demo")).expect("remove");
        assert!(store.is_empty());
        assert_eq!(store.images.remove(&name("demo")).expect_err("gone").code(), "image_not_found");
    }
}

#[test]
fn an_oci_image_is_applied_layer_by_layer_with_its_whiteouts() {
    let lower = tar(&[
        file("keep", "keep"),
        file("gone", ""),
        file("dir/old", ""),
        file("dir/sub/old", ""),
        file("was-dir/x", ""),
        file("was-file", ""),
        file("both", "old"),
    ]);
    let upper = tar(&[
        file(".wh.gone", ""),
        file("dir/new", "new"),
        file("dir/.wh..wh..opq", ""),
        file("was-dir", "file now"),
        file("was-file/x", "directory now"),
        file("both", "new"),
        file(".wh.both", ""),
        file(".wh.never-was", ""),
        tar_entry(b"linked", b'1', b"keep", 0o644, b""),
    ]);
    let store = Store::new();
    // `was-file` must be hidden before something can be below it.
    let upper_first = tar(&[file(".wh.was-file", "")]);
    let bytes = oci(&[lower, gzip(&upper_first), zstd(&upper)]);
    let info = store.import_bytes(&bytes).expect("import");
    assert_eq!(info.source, ImageSource::Oci);
    assert_eq!(info.config.env, ["A=b"]);
    assert_eq!(info.config.working_dir.as_deref(), Some("/srv"));
    assert_eq!((info.config.cmd.as_slice(), info.config.user), (&["sh".to_string()][..], None));
    let mut found = Vec::new();
    let mut dirs = vec![store.path("")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("read") {
            let path = entry.expect("entry").path();
            let shown = path.strip_prefix(store.path("")).expect("below").display().to_string();
            if path.is_dir() {
                dirs.push(path);
            } else {
                found.push((shown, fs::read_to_string(path).expect("text")));
            }
        }
    }
    found.sort();
    let expected = [
        ("both", "new"),
        ("dir/new", "new"),
        ("keep", "keep"),
        ("linked", "keep"),
        ("was-dir", "file now"),
        ("was-file/x", "directory now"),
    ];
    assert_eq!(found, expected.map(|(path, text)| (path.to_string(), text.to_string())));
}

#[test]
fn f33_a_whiteout_deletes_beneath_the_root_file_system_only() {
    let lower = tar(&[link("up", "../../.."), file("x", "")]);
    for (whiteout, code) in [
        ("up/.wh.secret", "symlink"),
        ("up/.wh..wh..opq", "symlink"),
        (".wh...", "path_parent"),
        ("../.wh.secret", "path_parent"),
        (".wh.", "path_empty"),
    ] {
        let store = Store::new();
        let bytes = oci(&[lower.clone(), tar(&[file(whiteout, "")])]);
        let refused = store.import_bytes(&bytes).expect_err(whiteout);
        assert_eq!(refused.code(), code, "{refused}");
        assert!(store.is_empty(), "{whiteout}");
    }
    let store = Store::new();
    store.import_bytes(&oci(&[lower, tar(&[file(".wh.up", "")])])).expect("control");
    assert!(!store.path("up").is_symlink() && store.path("x").exists());
}

#[test]
fn f15_content_that_is_not_as_promised_is_refused_before_promotion() {
    let layer = tar(&[file("f", "")]);
    let mut oci = Oci::default();
    let manifest = oci.manifest(std::slice::from_ref(&layer));
    let honest = oci.index(&manifest);
    let at = |needle: &[u8]| honest.windows(needle.len()).position(|w| w == needle).expect("there");
    let flip = |needle: &[u8], offset: usize| {
        let mut bytes = honest.clone();
        bytes[at(needle) + offset] ^= 1;
        Store::new().import_bytes(&bytes).expect_err("changed").code()
    };
    assert_eq!(flip(b"A=b", 0), "image_digest_mismatch");
    assert_eq!(flip(&layer[..512], 1023), "image_digest_mismatch");
    assert_eq!(flip(br#""layers""#, 1), "image_digest_mismatch");
    assert!(Store::new().import_bytes(&honest).is_ok(), "control");
}

#[test]
fn f15_descriptors_that_lead_nowhere_or_out_are_refused() {
    let zeros = "0".repeat(64);
    for (descriptor, code) in [
        (r#"{"digest":"sha256:../../x","size":1}"#.to_string(), "image_malformed"),
        (format!(r#"{{"digest":"sha256:{zeros}","size":1}}"#), "not_found"),
        (r#"{"digest":"md5:00","size":1}"#.to_string(), "image_malformed"),
        ("7".to_string(), "image_malformed"),
    ] {
        let store = Store::new();
        let mut oci = Oci::default();
        oci.blob(b"{}");
        let refused = store.import_bytes(&oci.index(&descriptor)).expect_err(&descriptor);
        assert_eq!(refused.code(), code, "{refused}");
        assert!(store.is_empty());
    }
}

#[test]
fn f15_a_wrong_size_and_endless_indexes_are_refused() {
    let store = Store::new();
    let mut oci = Oci::default();
    let manifest = oci.manifest(&[]);
    let size = manifest.rsplit(':').next().expect("size").trim_end_matches('}');
    let wrong = manifest.replace(&format!("\"size\":{size}"), "\"size\":1");
    assert_eq!(
        store.import_bytes(&oci.index(&wrong)).expect_err("size").code(),
        "image_size_mismatch"
    );
    let nested = |levels| {
        let mut oci = Oci::default();
        let mut descriptor = oci.manifest(&[]);
        for _ in 0..levels {
            descriptor = oci.blob(format!(r#"{{"manifests":[{descriptor}]}}"#).as_bytes());
        }
        Store::new().import_bytes(&oci.index(&descriptor)).map_err(|error| error.code())
    };
    assert_eq!(nested(9).expect_err("too deep"), "image_cycle");
    assert!(nested(1).is_ok(), "control");
}

fn docker(layer_path: &str, diff_id: &str, layer: &[u8]) -> Vec<u8> {
    let config =
        format!(r#"{{"config":{{"User":"app"}},"rootfs":{{"diff_ids":["sha256:{diff_id}"]}}}}"#);
    let config_name = format!("{}.json", sha256(config.as_bytes()));
    let manifest = format!(r#"[{{"Config":"{config_name}","Layers":["{layer_path}"]}}]"#);
    tar(&[
        tar_entry(b"one/layer.tar", b'0', b"", 0o644, layer),
        link("two/layer.tar", "../one/layer.tar"),
        link("out/layer.tar", "../../../../secret"),
        link("loop/layer.tar", "layer.tar"),
        file(&config_name, &config),
        file("manifest.json", &manifest),
    ])
}

#[test]
fn an_old_docker_archive_is_verified_by_its_layers_as_they_are_uncompressed() {
    let layer = tar(&[file("f", "from docker")]);
    let id = sha256(&layer);
    for bytes in [docker("one/layer.tar", &id, &layer), docker("two/layer.tar", &id, &gzip(&layer))]
    {
        let store = Store::new();
        let info = store.import_bytes(&gzip(&bytes)).expect("import");
        assert_eq!((info.source, info.config.user.as_deref()), (ImageSource::Docker, Some("app")));
        assert_eq!(fs::read_to_string(store.path("f")).expect("there"), "from docker");
    }
}

#[test]
fn f15_an_old_docker_archive_that_lies_is_refused() {
    let layer = tar(&[file("f", "")]);
    let id = sha256(&layer);
    for (path, id, code) in [
        ("../../secret", id.as_str(), "image_malformed"),
        ("/etc/passwd", &id, "image_malformed"),
        ("out/layer.tar", &id, "outside_workspace"),
        ("loop/layer.tar", &id, "symlink"),
        ("one", &id, "image_malformed"),
        ("missing", &id, "not_found"),
        ("one/layer.tar", &"0".repeat(64), "image_digest_mismatch"),
    ] {
        let store = Store::new();
        let refused = store.import_bytes(&docker(path, id, &layer)).expect_err(path);
        assert_eq!(refused.code(), code, "{refused}");
        assert!(store.is_empty(), "{path}");
    }
}

#[test]
fn an_import_that_died_is_swept_and_one_that_lives_is_not() {
    let store = Store::new();
    let images = store.dir.path().join("images");
    for dead in [".ringfence-dead", ".ringfence-live"] {
        fs::create_dir_all(images.join(dead).join("rootfs/a/b")).expect("leftover");
    }
    let live = fs::File::open(images.join(".ringfence-live")).expect("open");
    live.lock().expect("locked, as a running import is");
    assert!(store.images.list().expect("list").images.is_empty());
    store.import_bytes(&tar(&[file("usr/f", "")])).expect("import");
    assert!(!images.join(".ringfence-dead").exists());
    assert!(images.join(".ringfence-live/rootfs/a/b").exists());
}

#[test]
fn an_image_is_replaced_only_when_asked() {
    let store = Store::new();
    store.import_bytes(&tar(&[file("usr/f", "old")])).expect("import");
    let newer = tar(&[file("usr/f", "new")]);
    assert_eq!(store.import_bytes(&newer).expect_err("taken").code(), "image_exists");
    assert_eq!(fs::read_to_string(store.path("usr/f")).expect("there"), "old");
    store.import(&store.dir.path().join("source"), false, true).expect("replaced");
    assert_eq!(fs::read_to_string(store.path("usr/f")).expect("there"), "new");
    assert_eq!(fs::read_dir(store.dir.path().join("images")).expect("read").count(), 1);
}

#[test]
fn a_directory_is_used_in_place_and_must_stay_the_same() {
    let store = Store::new();
    let rootfs = store.dir.path().join("rootfs");
    fs::create_dir_all(rootfs.join("usr")).expect("mkdir");
    let info = store.import(&rootfs, false, false).expect("import");
    assert!(matches!(info.source, ImageSource::Directory { .. }));
    assert_eq!(store.path(""), rootfs.canonicalize().expect("path").join(""));
    fs::rename(&rootfs, store.dir.path().join("elsewhere")).expect("rename");
    fs::create_dir_all(rootfs.join("usr")).expect("another");
    let moved = store.images.rootfs(&name("demo")).expect_err("another directory");
    assert_eq!(moved.code(), "image_moved");
    store.images.remove(&name("demo")).expect("remove");
    assert!(rootfs.join("usr").exists() && store.is_empty());
    let code = |path: &Path| store.import(path, false, false).expect_err("refused").code();
    assert_eq!(code(Path::new("/")), "image_directory");
    assert_eq!(code(&store.dir.path().join("images")), "image_directory");
    assert_eq!(code(Path::new("/dev/null")), "image_source");
    assert_eq!(code(Path::new("/does/not/exist")), "image_io_failed");
}

#[test]
fn what_archives_and_layers_lost_is_told() {
    let device = |name: &str| tar_entry(name.as_bytes(), b'3', b"", 0o666, b"");
    let skipped = |name: &str| format!("{name}: device or FIFO skipped");
    let tarball = Store::new().import_bytes(&tar(&[file("f", "x"), device("null")]));
    assert_eq!(tarball.expect("import").notes, [skipped("null")]);
    let layers = [tar(&[file("f", "x"), device("lower")]), tar(&[device("upper")])];
    let layered = Store::new().import_bytes(&oci(&layers));
    assert_eq!(layered.expect("import").notes, [skipped("lower"), skipped("upper")]);
    let many: Vec<_> = (0..150).map(|number| device(&format!("d{number}"))).collect();
    let info = Store::new().import_bytes(&tar(&[vec![file("f", "x")], many].concat()));
    let notes = info.expect("import").notes;
    assert_eq!((notes.len(), notes[100].as_str()), (101, "and 50 more"));
}

#[test]
fn a_copied_directory_is_independent_of_its_source() {
    let store = Store::new();
    let rootfs = store.dir.path().join("rootfs");
    fs::create_dir_all(rootfs.join("usr")).expect("mkdir");
    fs::write(rootfs.join("usr/f"), "copied").expect("write");
    fs::set_permissions(rootfs.join("usr/f"), fs::Permissions::from_mode(0o4755)).expect("chmod");
    fs::hard_link(rootfs.join("usr/f"), rootfs.join("usr/g")).expect("link");
    std::os::unix::fs::symlink(store.dir.path().join("secret"), rootfs.join("l")).expect("link");
    let _socket = std::os::unix::net::UnixListener::bind(rootfs.join("s")).expect("a socket");
    let info = store.import(&rootfs, true, false).expect("import");
    assert_eq!((&info.source, info.bytes, info.entries), (&ImageSource::Copy, 6, 4));
    let dropped = "set-user-id or set-group-id bit dropped";
    let notes =
        ["s: socket left out".to_owned(), format!("usr/f: {dropped}"), format!("usr/g: {dropped}")];
    assert_eq!(info.notes, notes);
    assert_eq!(store.images.info(&name("demo")).expect("stored"), info);
    fs::write(rootfs.join("usr/f"), "changed").expect("write");
    let copy = fs::metadata(store.path("usr/f")).expect("stat");
    assert_eq!((copy.mode() & 0o7777, copy.nlink()), (0o755, 2));
    assert_eq!(fs::read_to_string(store.path("usr/g")).expect("there"), "copied");
    assert!(store.path("l").is_symlink());
}

#[test]
fn a_refused_tarball_leaves_the_store_as_it_was_and_progress_is_told() {
    let store = Store::new();
    let bytes = tar(&[file("usr/ok", ""), file("../../x", "")]);
    assert_eq!(store.import_bytes(&bytes).expect_err("refused").code(), "path_parent");
    assert!(store.is_empty());
    let source = store.dir.path().join("source");
    fs::write(&source, oci(&[tar(&[file("f", "")]), tar(&[file("g", "")])])).expect("source");
    let import = Import {
        name: name("demo"),
        source,
        copy: false,
        replace: false,
        created_at: String::new(),
        limits: LIMITS,
    };
    let mut layers = Vec::new();
    let mut verified = 0;
    let told = &mut |progress| match progress {
        Progress::Layer { number, of } => layers.push((number, of)),
        Progress::Verified { .. } => verified += 1,
        Progress::Written { .. } => {}
    };
    store.images.import(&import, told).expect("import");
    assert_eq!((layers.as_slice(), verified), (&[(1, 2), (2, 2)][..], 5));
}
