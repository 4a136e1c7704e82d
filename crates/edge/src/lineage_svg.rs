//! Drawing of a lineage: causes on the left, effects on the right, one column for each distance.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

use ringfence_engine::{NamedLineage, data::LineageNode};

/// Width of a column and height of a row.
const CELL: (i64, i64) = (230, 46);
/// Width and height of a node.
const NODE: (i64, i64) = (180, 32);
/// Border around the drawing.
const BORDER: i64 = 20;
/// Characters of a name.
const MAX_CHARS: usize = 24;
/// Nodes that are drawn; the JSON form has all.
const MAX_DRAWN: usize = 400;

/// Draws a lineage. The text has no scripts and refers to nothing; names are escaped.
pub fn draw(named: &NamedLineage) -> String {
    let mut columns: BTreeMap<i64, Vec<LineageNode>> = BTreeMap::new();
    let mut nearest: Vec<_> = named.levels.iter().collect();
    nearest.sort_by_key(|(node, level)| (level.abs(), **node));
    for (node, level) in nearest.into_iter().take(MAX_DRAWN) {
        columns.entry(*level).or_default().push(*node);
    }
    let rows = columns.values().map(Vec::len).max().unwrap_or(0) as i64;
    let first = columns.keys().next().copied().unwrap_or(0);
    let (width, height) = (columns.len() as i64 * CELL.0 + 2 * BORDER, rows * CELL.1 + 2 * BORDER);
    let mut places = HashMap::new();
    for (level, nodes) in &columns {
        let gap = (rows - nodes.len() as i64) * CELL.1 / 2;
        for (row, node) in (0..).zip(nodes) {
            let place = (BORDER + (level - first) * CELL.0, BORDER + gap + row * CELL.1);
            places.insert(*node, place);
        }
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\
         <title>Lineage</title>"
    );
    for edge in &named.lineage.edges {
        let (Some(node), Some(cause)) = (places.get(&edge.node), places.get(&edge.cause)) else {
            continue;
        };
        let (from, to) = ((cause.0 + NODE.0, cause.1 + NODE.1 / 2), (node.0, node.1 + NODE.1 / 2));
        let middle = i64::midpoint(from.0, to.0);
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            svg,
            "<path d=\"M{} {} C{middle} {} {middle} {} {} {}\" fill=\"none\" stroke=\"#888\">\
             <title>{}</title></path>",
            from.0,
            from.1,
            from.1,
            to.1,
            to.0,
            to.1,
            edge.relation.name()
        );
    }
    for (node, (x, y)) in sorted(&places) {
        let name = named.names.get(&node).cloned().unwrap_or_else(|| plain_name(&node));
        let short: String = name.chars().take(MAX_CHARS).collect();
        let is_first = named.levels.get(&node) == Some(&0);
        let _ = write!(
            svg,
            "<g><rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"6\" fill=\"{}\" \
             stroke=\"{}\"/><text x=\"{}\" y=\"{}\" fill=\"#111\">{}</text><title>{} {}</title></g>",
            NODE.0,
            NODE.1,
            colour(&node),
            if is_first { "#111" } else { "#888" },
            x + 8,
            y + 20,
            escaped(&short),
            escaped(&node.to_string()),
            escaped(&name),
        );
    }
    svg.push_str("</svg>");
    svg
}

fn sorted(places: &HashMap<LineageNode, (i64, i64)>) -> Vec<(LineageNode, (i64, i64))> {
    let mut all: Vec<_> = places.iter().map(|(node, place)| (*node, *place)).collect();
    all.sort_unstable();
    all
}

fn colour(node: &LineageNode) -> &'static str {
    match node {
        LineageNode::Artifact(..) => "#d6f0d9",
        LineageNode::Call(_) => "#d9e6fb",
        LineageNode::Tool(_) => "#eeeeee",
        LineageNode::Policy(_) => "#fdf1cf",
        LineageNode::Approval(_) => "#f9dcdc",
    }
}

/// Name of a node that has no better one: its kind and the beginning of its id.
fn plain_name(node: &LineageNode) -> String {
    let text = node.to_string();
    let id = text.split_once(':').map_or("", |(_, id)| id.strip_prefix("sha256:").unwrap_or(id));
    format!("{} {}", node.kind(), id.chars().take(12).collect::<String>())
}

fn escaped(text: &str) -> String {
    let shown = text.chars().filter(|c| !c.is_control());
    let mut safe = String::new();
    for c in shown {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_engine::data::{Lineage, LineageEdge, LineageRelation};

    #[test]
    fn causes_are_left_of_effects_and_names_are_escaped() {
        let node = |text: &str| text.parse::<LineageNode>().unwrap();
        let call = node("call:00000000-0000-0000-0000-000000000001");
        let artifact = node("artifact:00000000-0000-0000-0000-000000000002@1");
        let edge = LineageEdge::new(artifact, LineageRelation::MadeBy, call);
        let named = NamedLineage {
            lineage: Lineage { edges: vec![edge], ..Lineage::default() },
            levels: [(call, -1), (artifact, 0)].into(),
            names: [(artifact, "<script>\"&'".to_owned())].into(),
        };
        let svg = draw(&named);
        assert!(
            svg.contains("&lt;script&gt;&quot;&amp;&#39;") && !svg.contains("<script"),
            "{svg}"
        );
        assert!(svg.contains("M200 36 C225 36 225 36 250 36"), "{svg}");
        assert_eq!((svg.matches("<rect").count(), svg.matches("<path").count()), (2, 1));
        assert!(draw(&NamedLineage::default()).ends_with("</svg>"));
    }
}
