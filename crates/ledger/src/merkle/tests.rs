//! Comparison with the vectors of certificate transparency, and with the definition.

use proptest::prelude::*;
use ringfence_types::Digest;

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn digest(text: &str) -> Digest {
    format!("sha256:{text}").parse().unwrap()
}

/// The definition of RFC 6962, section 2.1.
fn defined(leaves: &[Digest]) -> Digest {
    match leaves {
        [] => empty(),
        [one] => *one,
        more => {
            let mut split = 1;
            while split * 2 < more.len() {
                split *= 2;
            }
            node(defined(&more[..split]), defined(&more[split..]))
        }
    }
}

fn leaves(count: u64) -> Vec<Digest> {
    (0..count).map(|index| leaf(&index.to_be_bytes())).collect()
}

/// A tree of these leaves, with all of its tiles.
fn grown(leaves: &[Digest]) -> (Builder, Tiles) {
    let (mut tree, mut tiles) = (Builder::default(), Tiles::default());
    for leaf in leaves {
        tree.push(*leaf, |tile| tiles.add(tile));
    }
    for (id, hashes) in TileId::edge(tree.size()).into_iter().zip(tree.edge()) {
        if let Some(id) = id {
            tiles.add(Tile { id, hashes: hashes.clone() });
        }
    }
    (tree, tiles)
}

/// The tiles that a proof asks for, with exactly their widths.
fn only(tiles: &Tiles, wanted: Vec<TileId>) -> Tiles {
    let read = |id: TileId| {
        let all = tiles.hashes(id.level, id.index).unwrap();
        Tile { id, hashes: all[..usize::from(id.width)].to_vec() }
    };
    wanted.into_iter().map(read).collect()
}

#[test]
fn roots_are_those_of_certificate_transparency() {
    let data = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ];
    let roots = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];
    let mut tree = Builder::default();
    assert_eq!(
        tree.root(),
        digest("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    );
    for (data, root) in data.iter().zip(roots) {
        tree.push(leaf(&hex(data)), |_| panic!("eight leaves fill no tile"));
        assert_eq!(tree.root(), digest(root), "{} leaves", tree.size());
    }
}

#[test]
fn the_known_proofs_of_certificate_transparency_hold() {
    let data = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657"];
    let mut all: Vec<_> = data.iter().map(|data| leaf(&hex(data))).collect();
    all.push(leaf(&hex("606162636465666768696a6b6c6d6e6f")));
    let (_, tiles) = grown(&all);
    let known = |texts: &[&str]| texts.iter().map(|text| digest(text)).collect::<Vec<_>>();
    let first = known(&[
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]);
    assert_eq!(inclusion(&tiles, 0, 8), Some(first));
    let between = known(&[
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]);
    assert_eq!(consistency(&tiles, 6, 8), Some(between));
}

#[test]
fn paths_are_those_of_the_specification() {
    let id = |level, index, width| TileId { level, index, width };
    for (tile, path) in [
        (id(0, 0, 256), "tile/0/000"),
        (id(0, 1_234_067, 256), "tile/0/x001/x234/067"),
        (id(1, 273, 112), "tile/1/273.p/112"),
        (id(2, 1_000, 1), "tile/2/x001/000.p/1"),
    ] {
        assert_eq!(tile.path(), path);
        assert_eq!(TileId::parse(path), Ok(tile));
    }
    for bad in [
        "",
        "tile/0/0",
        "tile/0/00",
        "tile/00/000",
        "tile/8/000",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/257",
        "tile/0/000.p/01",
        "tile/0/x000/000",
        "tile/0/1000",
        "tile/0/001/000",
        "tile/0/000/",
        "tile/-1/000",
        "tile/0/x999/x999/x999/x999/x999/x999/x999/999",
        "tile/entries/000",
    ] {
        assert_eq!(TileId::parse(bad), Err(InvalidTile), "{bad}");
    }
}

#[test]
fn entries_read_back_and_stray_bytes_are_refused() {
    let entries: [&[u8]; 3] = [b"one", b"", &[7; 65_535]];
    let bytes = encode_entries(entries).unwrap();
    assert_eq!(decode_entries(&bytes).unwrap(), entries);
    assert_eq!(encode_entries([&[0; 65_536][..]]), None);
    for short in [1, 3, bytes.len() - 1] {
        assert_eq!(decode_entries(&bytes[..short]), Err(InvalidTile));
    }
}

#[test]
fn a_tree_resumes_from_its_edge_at_any_size() {
    let all = leaves(600);
    for size in [0, 1, 255, 256, 257, 511, 512, 513, 600] {
        let (tree, _) = grown(&all[..size]);
        let again = Builder::resume(size as u64, tree.edge().to_vec()).unwrap();
        assert_eq!(again, tree);
        assert_eq!(Builder::resume(size as u64 + 1, tree.edge().to_vec()), None);
    }
}

#[test]
fn three_levels_of_tiles_prove_as_well_as_one() {
    let all = leaves(65_536 + 300);
    let (tree, tiles) = grown(&all);
    let size = tree.size();
    assert_eq!(tree.root(), defined(&all));
    for index in [0, 255, 256, 65_535, 65_536, 65_792, 65_835] {
        let needed = only(&tiles, tiles_for_inclusion(index, size));
        let proof = inclusion(&needed, index, size).unwrap();
        let leaf = all[index as usize];
        assert_eq!(verify_inclusion(leaf, index, size, &proof, tree.root()), Ok(()));
    }
    for old in [1, 256, 65_535, 65_536, 65_537, 65_836] {
        let needed = only(&tiles, tiles_for_consistency(old, size));
        let proof = consistency(&needed, old, size).unwrap();
        let old = (old, defined(&all[..old as usize]));
        assert_eq!(verify_consistency(old, (size, tree.root()), &proof), Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_leaf_is_proved_by_the_tiles_it_needs_and_by_nothing_else(
        size in 1_u64..1_200, pick in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(),
    ) {
        let all = leaves(size);
        let (tree, tiles) = grown(&all);
        let root = tree.root();
        prop_assert_eq!(root, defined(&all));
        prop_assert_eq!(super::root(&tiles, size), Some(root));
        let index = pick.index(all.len()) as u64;
        let leaf = all[index as usize];
        let needed = only(&tiles, tiles_for_inclusion(index, size));
        let proof = inclusion(&needed, index, size).unwrap();
        prop_assert_eq!(verify_inclusion(leaf, index, size, &proof, root), Ok(()));
        // Control: another leaf, another place, another size, another proof.
        prop_assert!(verify_inclusion(root, index, size, &proof, root).is_err() || size == 1);
        prop_assert!(verify_inclusion(leaf, index + 1, size, &proof, root).is_err());
        prop_assert!(verify_inclusion(leaf, index, size, &proof, leaf).is_err() || size == 1);
        if !proof.is_empty() {
            let at = flip.index(proof.len());
            let mut bad = proof.clone();
            bad[at] = Digest::of(b"other");
            prop_assert!(verify_inclusion(leaf, index, size, &bad, root).is_err());
            bad.remove(at);
            prop_assert!(verify_inclusion(leaf, index, size, &bad, root).is_err());
        }
        let longer = [proof, vec![root]].concat();
        prop_assert!(verify_inclusion(leaf, index, size, &longer, root).is_err());
    }

    #[test]
    fn what_was_there_stays_provably_there(
        size in 1_u64..1_200, pick in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(),
    ) {
        let all = leaves(size);
        let (tree, tiles) = grown(&all);
        let old = pick.index(all.len()) as u64 + 1;
        let old_root = defined(&all[..old as usize]);
        let (before, after) = ((old, old_root), (size, tree.root()));
        let needed = only(&tiles, tiles_for_consistency(old, size));
        let proof = consistency(&needed, old, size).unwrap();
        prop_assert_eq!(verify_consistency(before, after, &proof), Ok(()));
        // Control: a tree whose past is another one.
        let other = Digest::of(b"other");
        prop_assert!(verify_consistency((old, other), after, &proof).is_err());
        prop_assert!(verify_consistency(before, (size, other), &proof).is_err());
        prop_assert!(verify_consistency(before, after, &[proof.clone(), vec![other]].concat()).is_err());
        if !proof.is_empty() {
            let at = flip.index(proof.len());
            let mut bad = proof.clone();
            bad[at] = other;
            prop_assert!(verify_consistency(before, after, &bad).is_err());
        }
    }

    #[test]
    fn no_text_makes_a_tile_that_is_written_otherwise(path in "tile/[0-9]{1,2}/[x0-9/]{1,12}(\\.p/[0-9]{1,3})?") {
        if let Ok(id) = TileId::parse(&path) {
            prop_assert_eq!(id.path(), path);
        }
    }
}
