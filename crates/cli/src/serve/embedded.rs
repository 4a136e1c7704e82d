//! Skills that are part of the binary. The build script makes the table from `skills/`.

use ringfence_registry::EmbeddedSkill;

/// All embedded skills.
pub(super) const SKILLS: &[EmbeddedSkill] = include!(concat!(env!("OUT_DIR"), "/skills.rs"));

#[cfg(test)]
mod tests {
    use super::SKILLS;

    #[test]
    fn each_is_a_whole_skill_folder() {
        let names: Vec<_> = SKILLS.iter().map(|skill| skill.name).collect();
        assert_eq!(names, ["compact_memory", "extract_entities", "text_summarize"]);
        for skill in SKILLS {
            let files: Vec<_> = skill.files.iter().map(|(path, _)| *path).collect();
            for wanted in ["handler.py", "schema.json", "skill.yaml"] {
                assert!(files.contains(&wanted), "{}: {files:?}", skill.name);
            }
        }
    }
}
