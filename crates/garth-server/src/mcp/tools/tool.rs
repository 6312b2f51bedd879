//! Tool: the declaration of one operation that a model can call.

use std::borrow::Cow;

use futures::future::BoxFuture;
use garth_engine::ErrorKind;
use garth_engine::home::Scope;
use serde_json::{Value, json};

use super::answer::ToolAnswer;
use super::paths::refuse_parents;
use super::schema;
use crate::errors::Refusal;
use crate::fields::{Field, Kind};
use crate::routes::call::Call;
use crate::routes::route::AnswerSchema;
use crate::routes::tree::Tree;

/// Runs a tool. The fields of the call are its arguments, and the names of the identity that the server adds.
pub(in crate::mcp) type ToolHandler = for<'a> fn(&'a Call<'a>) -> BoxFuture<'a, Result<ToolAnswer, Refusal>>;

/// Operation that a model can call.
pub(in crate::mcp) struct Tool {
    pub(in crate::mcp) name: &'static str,
    /// Name for persons.
    pub(in crate::mcp) title: &'static str,
    /// Description for models: purpose, use, limits and answer.
    pub(in crate::mcp) description: &'static str,
    pub(in crate::mcp) effect: Effect,
    /// Scopes that the key of the caller must have, all of them.
    pub(in crate::mcp) scopes: &'static [Scope],
    pub(in crate::mcp) tree: Tree,
    /// Arguments, in groups, without the fields that name the caller.
    pub(in crate::mcp) fields: &'static [&'static [Field]],
    /// Schema of the structured answer.
    pub(in crate::mcp) answer: AnswerSchema,
    pub(in crate::mcp) run: ToolHandler,
}

/// Effect of a tool on stored data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mcp) enum Effect {
    /// Returns stored data and changes nothing.
    Reads,
    /// Adds data, and replaces none. A repeat adds nothing.
    Adds,
    /// Moves data, and replaces none. A repeat fails.
    Moves,
    /// Replaces data. A repeat fails.
    Edits,
    /// Replaces data. A repeat changes nothing.
    Writes,
    /// Replaces data by earlier data. A repeat changes nothing.
    Restores,
    /// Removes data. A repeat changes nothing.
    Deletes,
}

impl Effect {
    /// Returns true if a tool with this effect changes stored data.
    pub(in crate::mcp) const fn writes(self) -> bool {
        !matches!(self, Self::Reads)
    }

    /// Returns the annotations of a tool with this effect. For one that only reads, the other hints have no
    /// meaning.
    fn annotations(self) -> Value {
        if self == Self::Reads {
            return json!({"readOnlyHint": true, "openWorldHint": false});
        }
        let is_destructive = !matches!(self, Self::Adds | Self::Moves);
        let is_idempotent = !matches!(self, Self::Moves | Self::Edits);
        let mut hints = json!({
            "readOnlyHint": false,
            "destructiveHint": is_destructive,
            "openWorldHint": false,
        });
        // `false` is its default.
        if is_idempotent {
            hints["idempotentHint"] = json!(true);
        }
        hints
    }
}

impl Tool {
    /// Returns the tool as `tools/list` describes it.
    pub(in crate::mcp) fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": schema::input(self.fields),
            "outputSchema": schema::output(self.answer),
            "annotations": self.effect.annotations(),
        })
    }

    /// Runs the tool. A refusal names the path that it is about, for a caller who may read it, and the tool
    /// that goes on.
    pub(in crate::mcp) async fn call(&self, call: &Call<'_>) -> Result<ToolAnswer, Refusal> {
        self.check_paths(call)?;
        let answered = (self.run)(call).await;
        let is_about_paths = matches!(self.tree, Tree::Files | Tree::Search);
        answered.map_err(|refusal| match is_about_paths && call.may_read() {
            true => hinted(refusal).naming_path(),
            false => refusal,
        })
    }

    /// Refuses arguments that are no paths as garth writes them.
    fn check_paths(&self, call: &Call<'_>) -> Result<(), Refusal> {
        let fields = self.fields.iter().copied().flatten();
        for field in fields.filter(|field| matches!(field.kind, Kind::Text { of: "path", .. })) {
            let path: Option<Cow<'_, str>> = call.fields.read(field.name, &field.kind, None)?;
            path.map_or(Ok(()), |path| refuse_parents(call, field.name, &path))?;
        }
        Ok(())
    }
}

/// Adds to a refusal about a path what the model can do.
fn hinted(refusal: Refusal) -> Refusal {
    let hint = match refusal.kind {
        ErrorKind::NotFound if refusal.path().is_some() => "find it with `ls` or `glob`",
        ErrorKind::NotADirectory => "read it with `read_file`",
        ErrorKind::IsADirectory => "list it with `ls`",
        ErrorKind::Busy => "this path cannot be moved, replaced or deleted, only what is below it",
        _ => return refusal,
    };
    refusal.hinting(hint)
}

/// Builds tools from rows of the form `Effect "name" "title" scopes, Tree(function, fields) -> Answer;`. The
/// documentation of the fields is the description of the tool. A function gets the tree of its call, the call
/// and the fields. `Adds` and `Writes` create missing directories of the caller, others do not.
macro_rules! tools {
    ($(
        $effect:ident $name:literal $title:literal $($scope:ident)+,
        $tree:ident($answer:path, $($fields:ident)::+) -> $json:ty;
    )*) => {
        &[$($crate::mcp::tools::tool::Tool {
            name: $name,
            title: $title,
            description: <$($fields)::+<'_> as $crate::fields::FieldGroup<'_>>::SUMMARY.trim_ascii(),
            effect: $crate::mcp::tools::tool::Effect::$effect,
            scopes: &[$(Scope::$scope),+],
            tree: $crate::routes::tree::Tree::$tree,
            fields: <$($fields)::+<'_> as $crate::fields::FieldGroup<'_>>::FIELDS,
            answer: $crate::routes::route::schema_of::<$json>,
            run: |call| Box::pin(async move {
                // Parsed before the tree is opened, so that an invalid call creates nothing.
                let fields = <$($fields)::+<'_> as $crate::fields::FieldGroup<'_>>::read(&call.fields)?;
                let opened = tools!(@open $effect $tree call);
                let tree = tools!(@tree $tree opened);
                let answered = $answer(&tree, call, fields).await;
                tools!(@explained $tree tree answered)
            }),
        }),*]
    };
    (@explained Files $tree:ident $answered:ident) => {
        match $answered {
            Err(refusal) => Err($crate::mcp::tools::past::explained(&*$tree, refusal).await),
            answered => answered,
        }
    };
    (@explained $other:ident $tree:ident $answered:ident) => { $answered };
    (@open Reads $tree:ident $call:ident) => {
        $crate::routes::open::reach($call, $crate::routes::tree::Tree::$tree).await?
    };
    (@open Adds $tree:ident $call:ident) => { tools!(@create $tree $call) };
    (@open Writes $tree:ident $call:ident) => { tools!(@create $tree $call) };
    (@open $other:ident $tree:ident $call:ident) => { tools!(@open Reads $tree $call) };
    (@create $tree:ident $call:ident) => {
        $crate::routes::open::open($call, $crate::routes::tree::Tree::$tree).await?
    };
    (@tree Files $opened:ident) => { $opened.files().await? };
    (@tree Memories $opened:ident) => { $opened.memories()? };
    (@tree MemoryTool $opened:ident) => { $opened };
    (@tree Recall $opened:ident) => { $opened };
    (@tree Search $opened:ident) => { $opened };
}
pub(super) use tools;
