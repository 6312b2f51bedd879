//! Skills over HTTP.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use garth_agent::workspace::{Host, InstallFile, Listing, Origin, Workspace};
use garth_engine::home::Scope;
use serde_json::Value;

use super::answers::{SkillAbsence, SkillAnswer, SkillChanged, SkillFileAnswer, SkillInstalled};
use crate::errors::Refusal;
use crate::fields::{array, fields, flag, object, string, string_of};
use crate::routes::call::Call;
use crate::routes::memories::written;
use crate::routes::respond::Json;

fields! {
    /// Lists the skills of an agent: those that a prompt shows, and those that it leaves out.
    pub(crate) struct ListFields<'a> {
        /// Hosts on which the tools of the agent run, in the form of `hosts` in the `inputs` of a prompt.
        hosts: Vec<Host> = array("hosts"), or Vec::new();
    }
}

pub(in crate::routes) async fn list(
    workspace: &Workspace<'_>,
    _: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Json<Listing>, Refusal> {
    Json::of(&workspace.skills(&fields.hosts).await?)
}

fields! {
    /// Returns a skill, and whether it applies.
    pub(crate) struct GetFields<'a> {
        /// Name of the directory of the skill.
        name: Cow<'a, str> = string_of("id");
        /// Hosts on which the tools of the agent run, in the form of `hosts` in the `inputs` of a prompt.
        hosts: Vec<Host> = array("hosts"), or Vec::new();
    }
}

pub(in crate::routes) async fn get(
    workspace: &Workspace<'_>,
    _: &Call<'_>,
    fields: GetFields<'_>,
) -> Result<Json<SkillAnswer>, Refusal> {
    let (mut skill, origin, path, why) = workspace.skill(&fields.name, &fields.hosts).await?;
    let body = std::mem::take(&mut skill.body);
    Json::of(&SkillAnswer {
        skill,
        directory: fields.name.into_owned(),
        origin,
        path: path.to_string(),
        applies: why.is_none(),
        why: why.map(|(reason, detail)| SkillAbsence { reason, detail }),
        body,
    })
}

fields! {
    /// Returns a file of a skill.
    pub(crate) struct ReadFields<'a> {
        /// Path below the skills, such as `pdf/SKILL.md`.
        path: Cow<'a, str> = string_of("path");
    }
}

pub(in crate::routes) async fn read(
    workspace: &Workspace<'_>,
    _: &Call<'_>,
    fields: ReadFields<'_>,
) -> Result<Json<SkillFileAnswer>, Refusal> {
    let file = workspace.read_skill(&fields.path).await?;
    // A file that is not UTF-8 is returned in base64.
    let (text, base64) = match std::str::from_utf8(&file.bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(&file.bytes))),
    };
    Json::of(&SkillFileAnswer {
        origin: file.origin,
        path: file.path.to_string(),
        version_id: file.etag.to_string(),
        size: file.bytes.len(),
        text,
        base64,
    })
}

fields! {
    /// Writes a file of a skill of the agent.
    pub(crate) struct WriteFields<'a> {
        /// Path below the skills, such as `pdf/SKILL.md`.
        path: Cow<'a, str> = string_of("path");
        /// Text of the file.
        text: Cow<'a, str> = string();
    }
}

pub(in crate::routes) async fn write(
    workspace: &Workspace<'_>,
    _: &Call<'_>,
    fields: WriteFields<'_>,
) -> Result<Json<SkillChanged>, Refusal> {
    let (path, seq) = workspace.write_skill(&fields.path, fields.text.into_owned()).await?;
    Json::of(&SkillChanged { ok: true, path: path.to_string(), seq: seq.0 })
}

fields! {
    /// Replaces a text in a file of a skill.
    pub(crate) struct EditFields<'a> {
        /// Path below the skills, such as `pdf/SKILL.md`.
        path: Cow<'a, str> = string_of("path");
        /// Text that the file contains once.
        old: Cow<'a, str> = string();
        /// Text that takes its place.
        new: Cow<'a, str> = string();
    }
}

pub(in crate::routes) async fn edit(
    workspace: &Workspace<'_>,
    _: &Call<'_>,
    fields: EditFields<'_>,
) -> Result<Json<SkillChanged>, Refusal> {
    let (path, seq) = workspace.edit_skill(&fields.path, &fields.old, &fields.new).await?;
    Json::of(&SkillChanged { ok: true, path: path.to_string(), seq: seq.0 })
}

fields! {
    /// Installs a skill: writes all of its files.
    pub(crate) struct InstallFields<'a> {
        /// Name of the directory of the skill.
        name: Cow<'a, str> = string_of("id");
        /// Files: a text for each path.
        files: BTreeMap<String, String> = object("texts");
        /// `true` installs it for every agent of the account; needs `admin`.
        global: bool = flag(), or false;
    }
}

pub(in crate::routes) async fn install(
    workspace: &Workspace<'_>,
    call: &Call<'_>,
    fields: InstallFields<'_>,
) -> Result<Json<SkillInstalled>, Refusal> {
    let origin = origin(call, fields.global)?;
    let files: Vec<InstallFile> =
        fields.files.into_iter().map(|(name, text)| InstallFile::new(name, text)).collect();
    let done = workspace.install_skill(&fields.name, origin, &files).await?;
    Json::of(&SkillInstalled {
        ok: true,
        path: done.path.to_string(),
        written: done.written,
        same: call.stored(done.same),
        flaws: done.flaws,
        seq: done.seq.map(|seq| seq.0),
    })
}

/// Returns the owner of a skill to write. A skill for every agent requires the scope `admin`.
fn origin(call: &Call<'_>, global: bool) -> Result<Origin, Refusal> {
    match global {
        true if !call.key.allows(Scope::Admin) => Err(Refusal::forbidden(Scope::Admin.as_str())),
        true => Ok(Origin::Global),
        false => Ok(Origin::Agent),
    }
}

fields! {
    /// Removes a skill: the agent's own, or with `global` the account's. Its versions stay.
    pub(crate) struct DeleteFields<'a> {
        /// Name of the directory of the skill.
        name: Cow<'a, str> = string_of("id");
        /// `true` removes the account's skill; needs `admin`.
        global: bool = flag(), or false;
    }
}

pub(in crate::routes) async fn delete(
    workspace: &Workspace<'_>,
    call: &Call<'_>,
    fields: DeleteFields<'_>,
) -> Result<Json<SkillChanged>, Refusal> {
    let origin = origin(call, fields.global)?;
    let (path, seq) = workspace.remove_skill(call.key.share(), &fields.name, origin).await?;
    Json::of(&SkillChanged { ok: true, path: path.to_string(), seq: seq.0 })
}

fields! {
    /// Publishes a skill of the agent as a memory.
    pub(crate) struct PublishFields<'a> {
        /// Name of the directory of the skill.
        name: Cow<'a, str> = string_of("id");
    }
}

pub(in crate::routes) async fn publish(
    workspace: &Workspace<'_>,
    call: &Call<'_>,
    fields: PublishFields<'_>,
) -> Result<Value, Refusal> {
    Ok(written(call, &workspace.publish_skill(call.key.share(), &fields.name).await?))
}
