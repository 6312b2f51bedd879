//! Answers of the calls on an agent.

use garth_agent::Class;
use garth_agent::session::Listed;
use garth_agent::workspace::{Changed, Difference, Origin, Part, PromptManifest, Reason, SkillText};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Agent that was created.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AgentCreated {
    /// Always true.
    pub(super) ok: bool,
    /// Id of the agent.
    pub(super) agent: String,
    /// Paths of the files that were created.
    pub(super) made: Vec<String>,
    /// Paths of the files that existed and stay as they are.
    pub(super) kept: Vec<String>,
    /// Sequence number of the commit; `null` if nothing was created.
    pub(super) seq: Option<u64>,
}

/// System prompt of an agent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct PromptAnswer<'a> {
    /// Always true.
    pub(super) ok: bool,
    /// Description of the prompt.
    pub(super) prompt: PromptManifest<'a>,
    /// Prompt in the form that was asked for. For `text` a string; for `markdown` a report for people, a
    /// string; for `openai` an array of messages that precede all others; for `anthropic` an array of blocks
    /// for `system`.
    pub(super) content: Value,
}

/// Difference between two prompts.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct PromptDifference {
    /// Parts that only the second prompt has.
    added: Vec<PromptPartChange>,
    /// Parts that only the first prompt has.
    removed: Vec<PromptPartChange>,
    /// Parts of both prompts with different texts.
    changed: Vec<PromptPartChange>,
    /// Tokens of the first and the second prompt.
    tokens: [u64; 2],
    /// Bytes of the first and the second prompt.
    bytes: [u64; 2],
    /// Length in bytes of the common prefix of both, which the prompt cache of a model can reuse.
    common_bytes: u64,
}

impl PromptDifference {
    /// Returns the answer for a difference.
    pub(super) fn of(difference: Difference) -> Self {
        let changes = |changed: Vec<Changed>| changed.into_iter().map(PromptPartChange::of).collect();
        Self {
            added: changes(difference.added),
            removed: changes(difference.removed),
            changed: changes(difference.changed),
            tokens: difference.tokens,
            bytes: difference.bytes,
            common_bytes: difference.common_bytes,
        }
    }
}

/// Part that differs between two prompts.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct PromptPartChange {
    /// Name of the part.
    name: &'static str,
    /// Part of the first prompt. If it is omitted there, `reason` says why.
    from: Part,
    /// Part of the second prompt. If it is omitted there, `reason` says why.
    to: Part,
    /// Texts in the first and the second prompt; empty where the part is omitted.
    texts: [String; 2],
}

impl PromptPartChange {
    fn of(changed: Changed) -> Self {
        Self { name: changed.to.name, from: changed.from, to: changed.to, texts: changed.texts }
    }
}

/// Text that was added to the memory of a day.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct DailyAdded {
    /// Always true.
    pub(super) ok: bool,
    /// Path of the file that has the text.
    pub(super) path: String,
    /// Sequence number of the commit.
    pub(super) seq: u64,
}

/// Memory of a day.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct DailyMemory {
    /// Day, such as `2026-01-31`.
    pub(super) day: String,
    /// Parts of the memory, in their order; `null` if the day has no memory.
    pub(super) parts: Option<Vec<DailyPart>>,
}

/// Part of the memory of a day.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct DailyPart {
    /// Class of the sessions that wrote the part: `main`, `dm` or `group`; `main` for text written outside of
    /// sessions; `null` if the commit is no longer known.
    #[schemars(with = "Option<String>")]
    pub(super) class: Option<Class>,
    /// Text, Markdown.
    pub(super) text: String,
}

/// Day that has a memory.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct DailyItem {
    /// Day, such as `2026-01-31`.
    pub(super) day: String,
    /// Size in bytes of the memory that the caller may see.
    pub(super) bytes: u64,
}

/// Result of a reset.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(deny_unknown_fields)]
pub(crate) enum SessionReset {
    /// Session that is not due, with `if_due`. Nothing was changed.
    Kept {
        /// Always true.
        ok: bool,
        /// Always false.
        reset: bool,
    },
    /// Session that was reset.
    Reset {
        /// Always true.
        ok: bool,
        /// Always true.
        reset: bool,
        /// Path of the archive of the messages; `null` for a session without messages.
        archive: Option<String>,
        /// Number of messages in the archive.
        messages: u64,
        /// The next session; `null` for a key that may not read.
        next: Option<Box<Listed>>,
        /// Path of the file to which extracted memories were added; `null` if none were.
        memory: Option<String>,
        /// Id of the job that asks the model again for memories; `null` if there is none.
        job: Option<String>,
        /// Sequence number of the commit.
        seq: u64,
    },
}

/// Page of the transcript of a session or an archive.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AgentTranscriptPage {
    /// Format of the messages.
    pub(super) format: &'static str,
    /// Messages of the page in the format, each an object; for `markdown` each a string.
    #[schemars(with = "Vec<Value>")]
    pub(super) items: Vec<Box<RawValue>>,
    /// True if more messages follow. Missing on the last page.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_more: bool,
    /// First line of the next page, to be sent as `first_line`. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_line: Option<u64>,
}

/// Skill.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SkillAnswer {
    /// Front matter of `SKILL.md`.
    pub(super) skill: SkillText,
    /// Name of the directory of the skill.
    pub(super) directory: String,
    /// Owner of the skill: the agent or the account.
    pub(super) origin: Origin,
    /// Path of `SKILL.md`, as the workspace shows it.
    pub(super) path: String,
    /// True if a prompt for these hosts lists the skill.
    pub(super) applies: bool,
    /// Reason why the skill does not apply; `null` if it does.
    pub(super) why: Option<SkillAbsence>,
    /// Text of `SKILL.md` after the front matter.
    pub(super) body: String,
}

/// Reason why a skill does not apply.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SkillAbsence {
    /// Kind of the reason.
    pub(super) reason: Reason,
    /// Details of the reason, a text for people; may be empty.
    pub(super) detail: String,
}

/// File of a skill.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SkillFileAnswer {
    /// Owner of the file: the agent or the account.
    pub(super) origin: Origin,
    /// Path of the file, as the workspace shows it.
    pub(super) path: String,
    /// Version of the file.
    pub(super) version_id: String,
    /// Size in bytes.
    pub(super) size: usize,
    /// Content. Missing if the file is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// Content in base64. Only for a file that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
}

/// Result of a change of a skill.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SkillChanged {
    /// Always true.
    pub(super) ok: bool,
    /// Path of the file that was written, or of the directory that was removed, as the workspace shows it.
    pub(super) path: String,
    /// Sequence number of the commit.
    pub(super) seq: u64,
}

/// Result of the installation of a skill.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SkillInstalled {
    /// Always true.
    pub(super) ok: bool,
    /// Path of the directory of the skill.
    pub(super) path: String,
    /// Files that were written, as paths in the directory.
    pub(super) written: Vec<String>,
    /// Number of files that existed with the same bytes; `null` for a key that may not read.
    pub(super) same: Option<usize>,
    /// Faults of `SKILL.md`, texts for people. The skill is installed nonetheless.
    pub(super) flaws: Vec<String>,
    /// Sequence number of the commit; `null` if all files existed with the same bytes.
    pub(super) seq: Option<u64>,
}

#[cfg(test)]
mod tests {
    use garth_agent::workspace::Listing;

    use super::*;
    use crate::routes::respond::{raw, text};

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn agents_are_answered_with_their_files() {
        let created = |seq| {
            let (agent, made) = ("scout".to_owned(), vec!["/agents/scout/SOUL.md".to_owned()]);
            text(&AgentCreated { ok: true, agent, made, kept: Vec::new(), seq })
        };
        let expected = r#"{"agent":"scout","kept":[],"made":["/agents/scout/SOUL.md"],"ok":true,"seq":3}"#;
        assert_eq!(created(Some(3)), expected);
        assert_eq!(created(None), expected.replace('3', "null"));
    }

    #[test]
    fn days_are_answered_with_their_parts() {
        let added = DailyAdded { ok: true, path: "/m.md".to_owned(), seq: 3 };
        assert_eq!(text(&added), r#"{"ok":true,"path":"/m.md","seq":3}"#);
        let day = || "2026-01-31".to_owned();
        let part = |class| DailyPart { class, text: "t".to_owned() };
        assert_eq!(
            text(&DailyMemory { day: day(), parts: Some(vec![part(Some(Class::Main)), part(None)]) }),
            concat!(
                r#"{"day":"2026-01-31","parts":[{"class":"main","text":"t"},"#,
                r#"{"class":null,"text":"t"}]}"#
            )
        );
        assert_eq!(text(&DailyMemory { day: day(), parts: None }), r#"{"day":"2026-01-31","parts":null}"#);
        assert_eq!(text(&DailyItem { day: day(), bytes: 9 }), r#"{"bytes":9,"day":"2026-01-31"}"#);
    }

    #[test]
    fn resets_are_answered_with_the_next_session() {
        assert_eq!(text(&SessionReset::Kept { ok: true, reset: false }), r#"{"ok":true,"reset":false}"#);
        let next = concat!(
            r#"{"created_at":"t","cwd":"/","meta":{"agent":"scout","class":"main","id":"u1","name":"work","#,
            r#""usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0},"user":"ann"},"#,
            r#""name":"work","state":"idle","updated_at":"t"}"#,
        );
        let reset = SessionReset::Reset {
            ok: true,
            reset: true,
            archive: some("/a.gz"),
            messages: 2,
            next: Some(serde_json::from_str(next).unwrap()),
            memory: some("/m.md"),
            job: some("j"),
            seq: 3,
        };
        assert_eq!(
            text(&reset),
            format!(
                r#"{{"archive":"/a.gz","job":"j","memory":"/m.md","messages":2,"next":{next},{}}}"#,
                r#""ok":true,"reset":true,"seq":3"#
            )
        );
        let (ok, reset, messages, seq) = (true, true, 0, 3);
        let bare = SessionReset::Reset {
            ok,
            reset,
            archive: None,
            messages,
            next: None,
            memory: None,
            job: None,
            seq,
        };
        assert_eq!(
            text(&bare),
            concat!(
                r#"{"archive":null,"job":null,"memory":null,"messages":0,"next":null,"#,
                r#""ok":true,"reset":true,"seq":3}"#
            )
        );
    }

    #[test]
    fn transcripts_are_passed_on_to_the_last_digit() {
        let page = |items, next_line: Option<u64>| {
            let has_more = next_line.is_some();
            raw(&AgentTranscriptPage { format: "garth", items, has_more, next_line }).unwrap()
        };
        let message = RawValue::from_string(r#"{"n":1.10}"#.to_owned()).unwrap();
        assert_eq!(
            page(vec![message], Some(5)).get(),
            r#"{"format":"garth","items":[{"n":1.10}],"has_more":true,"next_line":5}"#
        );
        assert_eq!(page(Vec::new(), None).get(), r#"{"format":"garth","items":[]}"#);
    }

    #[test]
    fn skills_are_answered_with_the_reason_why_not() {
        let answer = |skill: &str, why: Option<SkillAbsence>| {
            let (directory, path) = ("pdf".to_owned(), "/skills/pdf/SKILL.md".to_owned());
            let (skill, applies, body) = (SkillText::parse(skill), why.is_none(), "B\n".to_owned());
            text(&SkillAnswer { skill, directory, origin: Origin::Agent, path, applies, why, body })
        };
        assert_eq!(
            answer("---\ndescription: Reads.\n---\nB\n", None),
            concat!(
                r#"{"applies":true,"body":"B\n","directory":"pdf","origin":"agent","#,
                r#""path":"/skills/pdf/SKILL.md","skill":{"always":false,"description":"Reads.","#,
                r#""requires":{}},"why":null}"#
            )
        );
        let front = "name: pdf\ndescription: Reads.\nhomepage: https://a.example/\nalways: true\n";
        let why = SkillAbsence { reason: Reason::Disabled, detail: "d".to_owned() };
        assert_eq!(
            answer(&format!("---\n{front}---\nB\n"), Some(why)),
            concat!(
                r#"{"applies":false,"body":"B\n","directory":"pdf","origin":"agent","#,
                r#""path":"/skills/pdf/SKILL.md","skill":{"always":true,"description":"Reads.","#,
                r#""homepage":"https://a.example/","name":"pdf","requires":{}},"#,
                r#""why":{"detail":"d","reason":"disabled"}}"#
            )
        );
        assert_eq!(text(&Listing::default()), r#"{"left_out":[],"shown":[]}"#);
    }

    #[test]
    fn files_of_skills_are_text_or_base64() {
        let file = |text: Option<String>, base64: Option<String>| SkillFileAnswer {
            origin: Origin::Global,
            path: "/skills/pdf/a".to_owned(),
            version_id: "ver_1-2".to_owned(),
            size: 2,
            text,
            base64,
        };
        assert_eq!(
            text(&file(some("ab"), None)),
            r#"{"origin":"global","path":"/skills/pdf/a","size":2,"text":"ab","version_id":"ver_1-2"}"#
        );
        assert_eq!(
            text(&file(None, some("/wA="))),
            r#"{"base64":"/wA=","origin":"global","path":"/skills/pdf/a","size":2,"version_id":"ver_1-2"}"#
        );
    }

    #[test]
    fn changes_of_skills_name_path_and_commit() {
        let changed = SkillChanged { ok: true, path: "/s".to_owned(), seq: 3 };
        assert_eq!(text(&changed), r#"{"ok":true,"path":"/s","seq":3}"#);
        let installed = |same, seq| {
            let (path, written, flaws) = ("/s".to_owned(), vec!["SKILL.md".to_owned()], Vec::new());
            text(&SkillInstalled { ok: true, path, written, same, flaws, seq })
        };
        assert_eq!(
            installed(Some(1), Some(3)),
            r#"{"flaws":[],"ok":true,"path":"/s","same":1,"seq":3,"written":["SKILL.md"]}"#
        );
        assert_eq!(
            installed(None, None),
            r#"{"flaws":[],"ok":true,"path":"/s","same":null,"seq":null,"written":["SKILL.md"]}"#
        );
    }
}
