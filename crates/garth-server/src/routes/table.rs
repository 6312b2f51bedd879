//! Table of routes: the path, scopes, answer length, tree, handler, fields and answer of each call. Requests
//! are looked up, admitted, parsed and answered by this table alone, and the reference and the description in
//! OpenAPI are generated from it.

use axum::http::StatusCode;
use garth_agent::files::DuTotal;
use garth_agent::session::{Difference as PackDifference, Listed as Session};
use garth_agent::workspace::{Archive as SessionArchive, Listing as SkillListing};
use garth_engine::TreePath;
use garth_engine::home::Scope;
use garth_engine::model::{FindItem, Head, Item, Snapshot, Version, WalkItem};

use super::admin::{self, accounts, keys, overlays, quotas, retention, rules, snapshots, usage};
use super::agents::{self, archives, daily, prompt, skills};
use super::keyless::HealthAnswer;
use super::media::{self, PUT_HEADERS, READ_HEADERS};
use super::open::{open, reach};
use super::respond::{IntoBody as _, json};
use super::retry::RETRY_HEADER;
use super::route::{AnswerSchema, Length, Method, Route, Run, schema_of};
use super::sessions::{self, context, transcripts};
use super::tree::Tree;
use super::tree_calls::{commit, content, du, find, grep, lists, log, nodes, operations, restores, stream};
use super::{batch, fs, keyless, kv, memories, memory_tool, notes, recall, search, uploads};
use crate::fields::FieldGroup;
use crate::wire;

/// Builds routes from rows of the form `does "path" scopes length tree(function, fields);`. A `Write` creates
/// missing directories of its caller, a `Change` does not. The fields are followed by `unless dry` if the
/// call stores nothing with that field, or by `if create` if it stores nothing without it. A row ends with
/// `-> Type`, the type of the answer's JSON.
macro_rules! routes {
    ($(
        $does:ident $path:literal $($scope:ident)+, $length:ident $tree:ident($answer:path, $($fields:ident)::+)
        $($when:ident $field:ident)? -> $json:ty;
    )*) => {
        &[$(Route {
            method: Method::Post,
            path: $path,
            summary: <$($fields)::+<'_> as FieldGroup<'_>>::SUMMARY,
            scopes: &[$(Scope::$scope),+],
            tree: Tree::$tree,
            own_fields: <$($fields)::+<'_> as FieldGroup<'_>>::FIELDS,
            headers: routes!(@headers $does),
            answer: Some(schema_of::<$json> as AnswerSchema),
            run: routes!(@run $does)(Length::$length, |call| Box::pin(async move {
                let call = routes!(@call $does call);
                // Parsed before the tree is opened, so that an invalid call creates nothing.
                let fields = <$($fields)::+<'_>>::read(&call.fields)?;
                let opened = match routes!(@stores $does fields $($when $field)?) {
                    true => open(call, Tree::$tree).await?,
                    false => reach(call, Tree::$tree).await?,
                };
                let answer = $answer(&routes!(@tree $tree opened), call, fields).await?;
                Ok(answer.into_body())
            })),
        }),*]
    };
    (@headers Read) => { &[] };
    (@headers Write) => { &[RETRY_HEADER] };
    (@headers Change) => { &[RETRY_HEADER] };
    (@run Read) => { Run::Read };
    (@run Write) => { Run::Write };
    (@run Change) => { Run::Write };
    (@stores Read $fields:ident) => { false };
    (@stores Change $fields:ident) => { false };
    (@stores Write $fields:ident) => { true };
    (@stores Write $fields:ident unless $field:ident) => { !$fields.$field };
    (@stores Write $fields:ident if $field:ident) => { $fields.$field };
    (@call Read $call:ident) => { $call };
    (@call Write $call:ident) => { &$call };
    (@call Change $call:ident) => { &$call };
    (@tree KeyValues $opened:ident) => { $opened.key_values()? };
    (@tree Memories $opened:ident) => { $opened.memories()? };
    (@tree Sessions $opened:ident) => { $opened.sessions()? };
    (@tree Workspace $opened:ident) => { $opened.workspace()? };
    (@tree Media $opened:ident) => { $opened };
    (@tree Recall $opened:ident) => { $opened };
    (@tree Search $opened:ident) => { $opened };
    (@tree Files $opened:ident) => { $opened.files().await? };
    (@tree MemoryTool $opened:ident) => { $opened };
    (@tree Admin $opened:ident) => { $opened.account()? };
}

/// Routes of calls in JSON, in the order of the specifications.
static CALLS: &[Route] = routes! {
    Write "/v1/put" MemoryWrite, Passed KeyValues(kv::put, kv::PutFields) -> wire::WrittenAnswer;
    Write "/v1/put-many" MemoryWrite, Short KeyValues(kv::put_many, kv::PutManyFields)
        -> wire::ManyWrittenAnswer;
    Read  "/v1/get" MemoryRead, Passed KeyValues(kv::get, kv::GetFields) -> wire::GetAnswer<'static>;
    Read  "/v1/get-many" MemoryRead, Long KeyValues(kv::get_many, kv::GetManyFields)
        -> wire::ItemsPage<wire::ManyItem<'static>>;
    Write "/v1/increment" MemoryWrite MemoryRead, Passed KeyValues(kv::increment, kv::IncrementFields)
        -> wire::SumAnswer;
    Change "/v1/expire" MemoryWrite, Passed KeyValues(kv::expire, kv::ExpireFields) -> wire::ExpireAnswer;
    Write "/v1/delete" MemoryWrite, Passed KeyValues(kv::delete, kv::DeleteFields) -> wire::WrittenAnswer;
    Read  "/v1/list" MemoryRead, Passed KeyValues(kv::list, kv::ListFields)
        -> wire::ItemsPage<wire::ItemAnswer<'static>>;
    Read  "/v1/glob" MemoryRead, Short KeyValues(kv::glob, kv::GlobFields) -> wire::GlobAnswer<'static>;
    Read  "/v1/history" MemoryRead, Long KeyValues(kv::history, kv::HistoryFields)
        -> wire::HistoryAnswer<'static>;
    Read  "/v1/search" SearchRead, Long Search(search::search, search::SearchFields)
        -> wire::SearchAnswer<'static>;

    Write "/v1/remember" MemoryWrite, Short Memories(notes::remember, notes::RememberFields)
        -> memories::WrittenAnswer<'static>;
    Change "/v1/forget" MemoryWrite, Short Memories(notes::forget, notes::ForgetFields)
        -> notes::ForgetAnswer<'static>;

    Write "/v1/memories/put" MemoryWrite, Short Memories(memories::put, memories::PutFields)
        -> memories::WrittenAnswer<'static>;
    Read  "/v1/memories/get" MemoryRead, Long Memories(memories::get, memories::GetFields)
        -> memories::GetAnswer<'static>;
    Read  "/v1/memories/exists" MemoryRead, Short Memories(memories::exists, memories::ExistsFields)
        -> memories::ExistsAnswer;
    Read  "/v1/memories/list" MemoryRead, Long Memories(memories::list, memories::ListFields)
        -> wire::ItemsPage<memories::ListedMemory<'static>>;
    Read  "/v1/memories/log" MemoryRead, Long Memories(memories::log, memories::LogFields)
        -> wire::ItemsPage<memories::LoggedVersion<'static>>;
    Change "/v1/memories/tag" MemoryWrite, Short Memories(memories::tag, memories::TagFields)
        -> memories::TagAnswer;
    Change "/v1/memories/relate" MemoryWrite, Short Memories(memories::relate, memories::RelateFields)
        -> memories::RelateAnswer;
    Change "/v1/memories/unrelate" MemoryWrite, Short Memories(memories::unrelate, memories::UnrelateFields)
        -> memories::UnrelateAnswer;
    Read  "/v1/memories/relations" MemoryRead, Long Memories(memories::relations, memories::RelationsFields)
        -> memories::RelationsAnswer<'static>;
    Change "/v1/memories/move" MemoryWrite, Short Memories(memories::move_to, memories::MoveFields)
        -> memories::MoveAnswer;
    Change "/v1/memories/delete" MemoryWrite, Short Memories(memories::delete, memories::DeleteFields)
        -> memories::DeleteAnswer;

    Change "/v1/memory-tool" MemoryWrite MemoryRead, Long MemoryTool(memory_tool::run, memory_tool::CommandFields)
        -> garth_agent::memory_tool::Answer;

    Write "/v1/sessions/create" MemoryWrite, Short Sessions(sessions::create, sessions::CreateFields)
        -> sessions::answers::SessionWritten;
    Read  "/v1/sessions/get" MemoryRead, Short Sessions(sessions::get, sessions::GetFields)
        -> sessions::answers::SessionAnswer;
    Read  "/v1/sessions/list" MemoryRead, Long Sessions(sessions::list, sessions::ListFields)
        -> wire::ItemsPage<Session>;
    Write "/v1/sessions/current" MemoryWrite MemoryRead, Short Sessions(sessions::current, sessions::CurrentFields) if create
        -> sessions::answers::CurrentSession;
    Change "/v1/sessions/set" MemoryWrite, Short Sessions(sessions::set, sessions::SetFields)
        -> sessions::answers::SessionWritten;
    Change "/v1/sessions/append" MemoryWrite, Short Sessions(sessions::append, sessions::AppendFields)
        -> sessions::answers::LinesAppended;
    Read  "/v1/sessions/lines" MemoryRead, Long Sessions(sessions::lines, sessions::LinesFields)
        -> sessions::answers::LinesPage;
    Change "/v1/sessions/retract" MemoryWrite, Short Sessions(sessions::retract, sessions::RetractFields)
        -> sessions::answers::LinesRetracted;
    Read  "/v1/sessions/resolve" MemoryRead, Short Sessions(sessions::resolve, sessions::ResolveFields)
        -> sessions::answers::ResolvedSource;
    Write "/v1/sessions/import" MemoryWrite, Short Sessions(transcripts::import, transcripts::ImportFields) if create
        -> sessions::answers::TranscriptImported;
    Read  "/v1/sessions/export" MemoryRead, Long Sessions(transcripts::export, transcripts::ExportFields)
        -> sessions::answers::TranscriptPage;
    Change "/v1/context/derive" MemoryWrite, Short Sessions(context::derive, context::DeriveFields)
        -> context::answers::ContextDerived;
    Read  "/v1/context/why" MemoryRead, Short Sessions(context::why, context::WhyFields)
        -> context::answers::EntrySources;
    Change "/v1/context/pin" MemoryWrite, Short Sessions(context::pin, context::PinFields)
        -> context::answers::FilePinned;
    Change "/v1/context/compact" MemoryWrite, Model Sessions(context::compact, context::CompactFields)
        -> context::answers::SessionCompacted;
    Change "/v1/context/pack" MemoryWrite MemoryRead, Long Sessions(context::pack, context::PackFields)
        -> context::answers::PackAnswer<'static>;
    Read  "/v1/context/replay" MemoryRead, Long Sessions(context::replay, context::ReplayFields)
        -> context::answers::PackAnswer<'static>;
    Read  "/v1/context/compare" MemoryRead, Short Sessions(context::compare, context::CompareFields)
        -> PackDifference;
    Change "/v1/context/swap-out" MemoryWrite MemoryRead, Short Sessions(context::swap_out, context::SwapOutFields)
        -> context::answers::ContentSwappedOut;
    Change "/v1/context/swap-in" MemoryWrite, Short Sessions(context::swap_in, context::SwapInFields)
        -> context::answers::ContentSwappedIn;
    Read  "/v1/context/swapped" MemoryRead, Short Sessions(context::swapped, context::SwappedFields)
        -> context::answers::SwappedContents;
    Read  "/v1/context/swap-show" MemoryRead, Long Sessions(context::swap_show, context::SwapShowFields)
        -> context::answers::SwappedPart<'static>;
    Change "/v1/context/dedup" MemoryWrite MemoryRead, Short Sessions(context::dedup, context::DedupFields)
        -> context::answers::ContentDeduplicated;
    Change "/v1/context/spawn" MemoryWrite, Short Sessions(context::spawn, context::SpawnFields)
        -> context::answers::ChildSpawned;
    Read  "/v1/context/children" MemoryRead, Short Sessions(context::children, context::ChildrenFields)
        -> context::answers::SessionChildren;
    Change "/v1/context/set-child" MemoryWrite, Short Sessions(context::set_child, context::SetChildFields)
        -> context::answers::ChildChanged;
    Change "/v1/context/gc" MemoryWrite MemoryRead, Short Sessions(context::collect, context::CollectFields)
        -> context::answers::SessionCollected;
    Read  "/v1/sessions/provenance" MemoryRead, Short Sessions(context::wrote, context::WroteFields)
        -> context::answers::WrittenFilesPage;
    Change "/v1/context/publish" MemoryWrite, Short Sessions(sessions::publish, sessions::PublishFields)
        -> memories::WrittenAnswer<'static>;

    Change "/v1/agents" Admin, Short Admin(agents::create::create_named, agents::create::CreateNamedFields)
        -> agents::answers::AgentCreated;
    Change "/v1/agents/{agent}/create" Admin, Short Admin(agents::create::create, agents::create::CreateFields)
        -> agents::answers::AgentCreated;
    Write "/v1/agents/{agent}/prompt" MemoryWrite MemoryRead, Long Workspace(prompt::build, prompt::BuildFields) unless dry
        -> agents::answers::PromptAnswer<'static>;
    Read  "/v1/agents/{agent}/prompt/compare" MemoryRead, Long Workspace(prompt::compare, prompt::CompareFields)
        -> agents::answers::PromptDifference;
    Write "/v1/agents/{agent}/daily/add" MemoryWrite, Short Workspace(daily::add, daily::AddFields)
        -> agents::answers::DailyAdded;
    Read  "/v1/agents/{agent}/daily/get" MemoryRead, Long Workspace(daily::get, daily::GetFields)
        -> agents::answers::DailyMemory;
    Read  "/v1/agents/{agent}/daily/list" MemoryRead, Long Workspace(daily::list, daily::ListFields)
        -> wire::ItemsPage<agents::answers::DailyItem>;
    Change "/v1/agents/{agent}/reset" MemoryWrite, Model Workspace(archives::reset, archives::ResetFields)
        -> agents::answers::SessionReset;
    Read  "/v1/agents/{agent}/archives" MemoryRead, Long Workspace(archives::list, archives::ListFields)
        -> wire::ItemsPage<SessionArchive>;
    Read  "/v1/agents/{agent}/transcript" MemoryRead, Long Workspace(archives::transcript, archives::TranscriptFields)
        -> agents::answers::AgentTranscriptPage;
    Read  "/v1/agents/{agent}/media/list" MemoryRead, Long Media(agents::media::list, agents::media::ListFields)
        -> wire::ItemsPage<media::answers::MediaItem>;
    Change "/v1/agents/{agent}/media/copy" MemoryWrite, Short Media(agents::media::copy, agents::media::CopyFields)
        -> media::answers::MediaCopied;
    Change "/v1/agents/{agent}/media/delete" MemoryWrite, Short Media(agents::media::delete, agents::media::DeleteFields)
        -> media::answers::MediaDeleted;
    Read  "/v1/agents/{agent}/skills/list" MemoryRead, Long Workspace(skills::list, skills::ListFields)
        -> SkillListing;
    Read  "/v1/agents/{agent}/skills/get" MemoryRead, Long Workspace(skills::get, skills::GetFields)
        -> agents::answers::SkillAnswer;
    Read  "/v1/agents/{agent}/skills/read" MemoryRead, Long Workspace(skills::read, skills::ReadFields)
        -> agents::answers::SkillFileAnswer;
    Write "/v1/agents/{agent}/skills/write" MemoryWrite, Short Workspace(skills::write, skills::WriteFields)
        -> agents::answers::SkillChanged;
    Change "/v1/agents/{agent}/skills/edit" MemoryWrite MemoryRead, Short Workspace(skills::edit, skills::EditFields)
        -> agents::answers::SkillChanged;
    Write "/v1/agents/{agent}/skills/install" MemoryWrite, Long Workspace(skills::install, skills::InstallFields)
        -> agents::answers::SkillInstalled;
    Write "/v1/agents/{agent}/skills/publish" MemoryWrite, Short Workspace(skills::publish, skills::PublishFields)
        -> memories::WrittenAnswer<'static>;
    Change "/v1/agents/{agent}/skills/delete" MemoryWrite, Short Workspace(skills::delete, skills::DeleteFields)
        -> agents::answers::SkillChanged;

    Read  "/v1/recall" SearchRead, Own Recall(recall::recall, recall::RecallFields) -> recall::RecallAnswer;

    Read  "/v1/tree/capabilities" FilesRead, Short Files(nodes::capabilities, nodes::CapabilitiesFields)
        -> nodes::CapabilitiesAnswer;
    Read  "/v1/tree/head" FilesRead, Passed Files(nodes::head, nodes::HeadFields) -> Head;
    Read  "/v1/tree/wait" FilesRead, Waiting Files(nodes::wait, nodes::WaitFields) -> Head;
    Read  "/v1/tree/stat" FilesRead, Short Files(nodes::stat, nodes::StatFields) -> nodes::Node;
    Read  "/v1/tree/names" FilesRead, Long Files(lists::names, lists::NamesFields) -> wire::ItemsPage<TreePath>;
    Read  "/v1/tree/list" FilesRead, Long Files(lists::list, lists::ListFields) -> wire::ItemsPage<Item>;
    Read  "/v1/tree/walk" FilesRead, Long Files(lists::walk, lists::WalkFields) -> wire::ItemsPage<WalkItem>;
    Read  "/v1/tree/fetch" FilesRead, Long Files(content::fetch, content::FetchFields)
        -> content::FetchedFile<'static>;
    Read  "/v1/tree/fetch-many" FilesRead, Long Files(content::fetch_many, content::FetchManyFields)
        -> content::FetchManyAnswer;
    Read  "/v1/tree/history" FilesRead, Long Files(log::history, log::HistoryFields)
        -> wire::ItemsPage<Version>;
    Read  "/v1/tree/blame" FilesRead, Long Files(log::blame, log::BlameFields) -> log::BlameAnswer;
    Read  "/v1/tree/changes" FilesRead, Own Files(log::changes, log::ChangesFields) -> log::ChangesAnswer;
    Read  "/v1/tree/snapshots" FilesRead, Long Files(lists::snapshots, lists::SnapshotsFields)
        -> wire::ItemsPage<Snapshot>;
    Read  "/v1/tree/search" SearchRead, Long Files(find::search, find::SearchFields) -> find::SearchAnswer;
    Read  "/v1/tree/find" FilesRead, Long Files(find::find, find::FindFields) -> wire::ItemsPage<FindItem>;
    Read  "/v1/tree/grep" FilesRead, Long Files(grep::grep, grep::GrepFields) -> grep::GrepAnswer;
    Read  "/v1/tree/glob" FilesRead, Long Files(operations::glob, operations::GlobFields)
        -> operations::GlobAnswer;
    Read  "/v1/tree/diff" FilesRead, Long Files(operations::diff, operations::DiffFields)
        -> wire::ItemsPage<operations::FoundDifference<'static>>;
    Read  "/v1/tree/du" FilesRead, Long Files(du::du, du::DuFields) -> wire::ItemsPage<DuTotal>;
    Change "/v1/tree/edit" FilesWrite FilesRead, Short Files(operations::edit, operations::EditFields)
        -> operations::EditAnswer;
    Change "/v1/tree/restore" FilesWrite FilesRead, Short Files(restores::restore, restores::RestoreFields)
        -> restores::RestoredAnswer<'static>;
    Write "/v1/tree/commit" FilesWrite, Own Files(commit::commit, commit::CommitFields)
        -> commit::CommitAnswer<'static>;
    Read  "/v1/tree/committed" FilesRead, Long Files(commit::committed, commit::CommittedFields)
        -> commit::CommittedAnswer<'static>;
    Read  "/v1/tree/sync" FilesWrite, Short Files(nodes::sync, nodes::SyncFields) -> nodes::SyncAnswer;

    Write "/v1/batch" FilesWrite, Own Files(batch::batch, batch::BatchFields) -> batch::BatchAnswer<'static>;
    Read  "/v1/uploads/discard" FilesWrite, Short Files(uploads::discard, uploads::DiscardFields)
        -> uploads::DiscardAnswer;

    Read  "/v1/admin/rules/list" Admin, Long Admin(rules::list, rules::ListFields)
        -> admin::answers::RulesPage;
    Change "/v1/admin/rules/set" Admin, Short Admin(rules::set, rules::SetFields) -> admin::answers::RuleSet;
    Change "/v1/admin/rules/remove" Admin, Short Admin(rules::remove, rules::RemoveFields)
        -> admin::answers::RuleRemoved;
    Read  "/v1/admin/quotas/list" Admin, Long Admin(quotas::list, quotas::ListFields)
        -> wire::ItemsPage<admin::answers::QuotaItem>;
    Change "/v1/admin/quotas/set" Admin, Short Admin(quotas::set, quotas::SetFields)
        -> admin::answers::QuotaSet;
    Change "/v1/admin/quotas/remove" Admin, Short Admin(quotas::remove, quotas::RemoveFields)
        -> admin::answers::QuotaRemoved;
    Read  "/v1/admin/retention/get" Admin, Short Admin(retention::get, retention::GetFields)
        -> admin::answers::retention::RetentionAnswer;
    Change "/v1/admin/retention/set" Admin, Short Admin(retention::set, retention::SetFields)
        -> admin::answers::retention::RetentionAnswer;
    Read  "/v1/admin/usage" Admin, Long Admin(usage::usage, usage::UsageFields)
        -> admin::answers::retention::UsageAnswer;
    Change "/v1/admin/overlays/create" Admin, Short Admin(overlays::create, overlays::CreateFields)
        -> admin::answers::OverlayCreated;
    Read  "/v1/admin/overlays/list" Admin, Long Admin(overlays::list, overlays::ListFields)
        -> wire::ItemsPage<admin::answers::OverlayItem>;
    Read  "/v1/admin/overlays/diff" Admin, Long Admin(overlays::diff, overlays::DiffFields)
        -> wire::ItemsPage<admin::answers::OverlayChange>;
    Change "/v1/admin/overlays/apply" Admin, Short Admin(overlays::apply, overlays::ApplyFields)
        -> admin::answers::OverlayApplied;
    Change "/v1/admin/overlays/discard" Admin, Short Admin(overlays::discard, overlays::DiscardFields)
        -> admin::answers::OverlayDiscarded;
    Change "/v1/admin/snapshots/create" Admin, Short Admin(snapshots::create, snapshots::CreateFields)
        -> admin::answers::SnapshotChanged;
    Read  "/v1/admin/snapshots/list" Admin, Long Admin(snapshots::list, snapshots::ListFields)
        -> wire::ItemsPage<admin::answers::SnapshotItem>;
    Change "/v1/admin/snapshots/remove" Admin, Short Admin(snapshots::remove, snapshots::RemoveFields)
        -> admin::answers::SnapshotChanged;
    Read  "/v1/admin/accounts/collect" Admin, Short Admin(accounts::collect, accounts::CollectFields)
        -> admin::answers::AccountCollection;
    Read  "/v1/admin/accounts/check" Admin, Short Admin(accounts::check, accounts::CheckFields)
        -> admin::answers::AccountChecked;
    Read  "/v1/admin/accounts/reindex" Admin, Short Admin(accounts::reindex, accounts::ReindexFields)
        -> admin::answers::AccountReindexed;
};

/// Builds routes of calls on the control data, which need the scope `admin`, from rows of the form
/// `does "path" (function, fields) -> Type;`.
macro_rules! control_routes {
    ($($does:ident $path:literal ($answer:path, $($fields:ident)::+) -> $json:ty;)*) => {
        &[$(Route {
            method: Method::Post,
            path: $path,
            summary: <$($fields)::+<'_> as FieldGroup<'_>>::SUMMARY,
            scopes: &[Scope::Admin],
            tree: Tree::None,
            own_fields: <$($fields)::+<'_> as FieldGroup<'_>>::FIELDS,
            headers: routes!(@headers $does),
            answer: Some(schema_of::<$json> as AnswerSchema),
            run: control_routes!(@run $does)(|call| Box::pin(async move {
                let fields = <$($fields)::+<'_>>::read(&call.fields)?;
                Ok($answer(call, fields).await?.into_body())
            })),
        }),*]
    };
    (@run Read) => { Run::ReadControl };
    (@run Write) => { Run::WriteControl };
}

/// Routes of calls on the control data.
static CONTROL: &[Route] = control_routes! {
    Write "/v1/admin/keys/create" (keys::create, keys::CreateFields) -> admin::answers::KeyCreated;
    Read  "/v1/admin/keys/list" (keys::list, keys::ListFields) -> wire::ItemsPage<admin::answers::ApiKeyItem>;
    Write "/v1/admin/keys/rotate" (keys::rotate, keys::RotateFields) -> admin::answers::KeyRotated;
    Write "/v1/admin/keys/revoke" (keys::revoke, keys::RevokeFields) -> admin::answers::KeyRevoked;
    Write "/v1/admin/accounts/create" (accounts::create, accounts::CreateFields)
        -> admin::answers::AccountCreated;
    Read  "/v1/admin/accounts/list" (accounts::list, accounts::ListFields)
        -> wire::ItemsPage<admin::answers::AccountItem>;
    Write "/v1/admin/accounts/delete" (accounts::delete, accounts::DeleteFields)
        -> admin::answers::AccountDeleted;
};

/// Path of the call that stores a media file of a session.
pub(super) const MEDIA_PATH: &str = "/v1/agents/{agent}/media";

/// Path of the calls on the bytes of a file.
const FILE_PATH: &str = "/v1/fs/{*path}";

/// Routes of streams and bytes, and of calls that need no key.
static OTHERS: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/v1/tree/changes/stream",
        summary: stream::StreamFields::SUMMARY,
        scopes: &[Scope::FilesRead],
        tree: Tree::Files,
        own_fields: stream::StreamFields::FIELDS,
        headers: stream::HEADERS,
        answer: None,
        run: Run::Download(|call, head| Box::pin(stream::stream(call, head))),
    },
    Route {
        method: Method::Post,
        path: MEDIA_PATH,
        summary: media::PutFields::SUMMARY,
        scopes: &[Scope::MemoryWrite],
        tree: Tree::Media,
        own_fields: media::PutFields::FIELDS,
        headers: PUT_HEADERS,
        answer: Some(schema_of::<media::answers::MediaStored>),
        run: Run::Upload(|call, head, body| {
            Box::pin(async move {
                let fields = media::PutFields::read(&call.fields)?;
                Ok(json(media::put(&call, fields, head, body).await?))
            })
        }),
    },
    Route {
        method: Method::Get,
        path: "/v1/agents/{agent}/media/{session_key}/{file}",
        summary: media::ReadFields::SUMMARY,
        scopes: &[Scope::MemoryRead],
        tree: Tree::Media,
        own_fields: media::ReadFields::FIELDS,
        headers: READ_HEADERS,
        answer: None,
        run: Run::Download(|call, head| Box::pin(media::read(call, head))),
    },
    Route {
        method: Method::Get,
        path: FILE_PATH,
        summary: fs::ReadFields::SUMMARY,
        scopes: &[Scope::FilesRead],
        tree: Tree::Files,
        own_fields: fs::ReadFields::FIELDS,
        headers: fs::READ_HEADERS,
        answer: None,
        run: Run::Download(|call, head| Box::pin(fs::read(call, head))),
    },
    Route {
        method: Method::Put,
        path: FILE_PATH,
        summary: fs::PutFields::SUMMARY,
        scopes: &[Scope::FilesWrite],
        tree: Tree::Files,
        own_fields: fs::PutFields::FIELDS,
        headers: fs::PUT_HEADERS,
        answer: Some(schema_of::<fs::StoredAnswer<'static>>),
        run: Run::Upload(|call, head, body| Box::pin(async move { fs::put(&call, head, body).await })),
    },
    Route {
        method: Method::Patch,
        path: FILE_PATH,
        summary: fs::PatchFields::SUMMARY,
        scopes: &[Scope::FilesWrite],
        tree: Tree::Files,
        own_fields: fs::PatchFields::FIELDS,
        headers: fs::PATCH_HEADERS,
        answer: Some(schema_of::<fs::StoredAnswer<'static>>),
        run: Run::Upload(|call, head, body| Box::pin(async move { fs::patch(&call, head, body).await })),
    },
    Route {
        method: Method::Delete,
        path: FILE_PATH,
        summary: fs::DeleteFields::SUMMARY,
        scopes: &[Scope::FilesWrite],
        tree: Tree::Files,
        own_fields: fs::DeleteFields::FIELDS,
        headers: fs::DELETE_HEADERS,
        answer: Some(schema_of::<fs::RemovedAnswer<'static>>),
        run: Run::Upload(|call, head, body| Box::pin(async move { fs::delete(&call, head, body).await })),
    },
    Route {
        method: Method::Post,
        path: "/v1/uploads",
        summary: uploads::UploadFields::SUMMARY,
        scopes: &[Scope::FilesWrite],
        tree: Tree::Files,
        own_fields: uploads::UploadFields::FIELDS,
        headers: &[RETRY_HEADER],
        answer: Some(schema_of::<uploads::UploadAnswer>),
        run: Run::Upload(|call, _, body| Box::pin(async move { uploads::upload(&call, body).await })),
    },
    Route {
        method: Method::Get,
        path: "/healthz",
        summary: " Returns `ok` while the server accepts requests.",
        scopes: &[],
        tree: Tree::None,
        own_fields: &[],
        headers: &[],
        answer: Some(schema_of::<HealthAnswer>),
        run: Run::Keyless(|served, request| Box::pin(async move { keyless::health(&served, request) }), &[]),
    },
    Route {
        method: Method::Get,
        path: "/readyz",
        summary: " Returns `ok` if the storage answers, the disk has free space, and the server does not stop; else `UNAVAILABLE`.",
        scopes: &[],
        tree: Tree::None,
        own_fields: &[],
        headers: &[],
        answer: Some(schema_of::<HealthAnswer>),
        run: Run::Keyless(
            |served, request| Box::pin(keyless::ready(served, request)),
            &[StatusCode::SERVICE_UNAVAILABLE],
        ),
    },
    Route {
        method: Method::Get,
        path: "/metrics",
        summary: " Returns the metrics of the server in the text format of Prometheus, if they are enabled.",
        scopes: &[],
        tree: Tree::None,
        own_fields: &[],
        headers: &[],
        answer: None,
        run: Run::Keyless(
            |served, request| Box::pin(keyless::metrics(served, request)),
            &[StatusCode::UNAUTHORIZED, StatusCode::NOT_FOUND],
        ),
    },
];

/// Returns every route.
pub(super) fn routes() -> impl Iterator<Item = &'static Route> + Clone {
    CALLS.iter().chain(CONTROL).chain(OTHERS)
}

/// Returns the routes by their paths, in the order of the table.
pub(super) fn routes_by_path() -> Vec<(&'static str, Vec<&'static Route>)> {
    let mut paths: Vec<(&str, Vec<&Route>)> = Vec::new();
    for route in routes() {
        match paths.iter_mut().find(|(path, _)| *path == route.path) {
            Some((_, of_path)) => of_path.push(route),
            None => paths.push((route.path, vec![route])),
        }
    }
    paths
}

/// Returns a further path of the routes of a path: `/v1/fs/` for the root, which is no ending of a path.
pub(super) fn alias(path: &str) -> Option<&'static str> {
    (path == FILE_PATH).then_some("/v1/fs/")
}
