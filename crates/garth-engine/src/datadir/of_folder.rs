//! The data folder as a [`Home`].

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::DataDir;
use crate::env::Env;
use crate::error::Result;
use crate::fs::AccountStore;
use crate::home::{
    Account, AccountRequest, Admitted, ApiKey, Backup, Home, KeyOwner, KeysPage, Mark, NewKey, Rotated,
    Rotation, Secret, StoredSize, account_gone,
};
use crate::model::Listing;
use crate::runtime::disk::free_space;
use crate::stats::HomeStats;

#[async_trait]
impl Home for DataDir {
    fn env(&self) -> &Env {
        self.folder.runtime.env()
    }

    fn place(&self) -> String {
        self.folder.path.to_string_lossy().into_owned()
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.folder.path)
    }

    fn sealing_key(&self) -> [u8; 32] {
        self.folder.control.hasher.sealing_key()
    }

    async fn accounts(&self, after: &str, limit: usize) -> Result<Vec<Account>> {
        self.control.accounts_after(after, limit).await
    }

    async fn account(&self, id: &str) -> Result<Account> {
        self.control.account(id).await
    }

    async fn create_account(&self, id: &str) -> Result<Account> {
        Self::create_account(self, id).await
    }

    async fn create_account_once(&self, id: &str, request: &AccountRequest) -> Result<(Account, bool)> {
        let (folder, id, request) = (Arc::clone(&self.folder), id.to_owned(), request.clone());
        self.folder.runtime.blocking().run(move || folder.create_account_once(&id, &request)).await
    }

    async fn delete_account(&self, id: &str) -> Result<()> {
        Self::delete_account(self, id).await
    }

    async fn delete_account_once(&self, id: &str, request: &AccountRequest) -> Result<bool> {
        let (folder, id, request) = (Arc::clone(&self.folder), id.to_owned(), request.clone());
        let begin = move || folder.begin_deletion_once(&id, &request);
        let (begun, is_own) = self.folder.runtime.blocking().run(begin).await?;
        if let Some(begun) = begun {
            begun.ended().await?;
        }
        Ok(is_own)
    }

    async fn finish_deletion(&self, id: &str) -> Result<bool> {
        let (folder, id) = (Arc::clone(&self.folder), id.to_owned());
        match self.folder.runtime.blocking().run(move || folder.continue_deletion(&id)).await? {
            Some(begun) => begun.ended().await.map(|()| true),
            None => Ok(false),
        }
    }

    async fn continue_deletions(&self) -> Result<()> {
        let folder = Arc::clone(&self.folder);
        self.folder.runtime.blocking().run(move || folder.continue_deletions()).await
    }

    async fn open(&self, id: &str) -> Result<Arc<dyn AccountStore>> {
        Self::account(self, id).await
    }

    async fn admit(&self, token: &str) -> Result<Option<Admitted>> {
        self.folder.control.admit(token)
    }

    async fn open_admitted(&self, admitted: &Admitted) -> Result<Arc<dyn AccountStore>> {
        let (account, folder) = admitted.account()?;
        let tree = match self.folder.trees.kept(folder) {
            Some(tree) => tree,
            // Not open, or dropped from the cache because it is being deleted.
            None => match self.control.account(account).await? {
                account if account.folder == folder => self.tree(account).await?,
                _ => return Err(account_gone()),
            },
        };
        Ok(tree)
    }

    async fn keys(&self, owner: &KeyOwner, page: &KeysPage) -> Result<Listing<ApiKey>> {
        self.control.keys_of(owner, page).await
    }

    async fn count_keys(&self, owner: &KeyOwner) -> Result<u64> {
        self.control.count_keys_of(owner).await
    }

    async fn issue_key(&self, new: NewKey) -> Result<(ApiKey, Secret)> {
        self.control.issue_key(new).await
    }

    async fn rotate_key(&self, owner: &KeyOwner, id: &str, rotation: Rotation) -> Result<Rotated> {
        self.control.rotate_key_of(owner, id, rotation).await
    }

    async fn revoke_key(&self, owner: &KeyOwner, id: &str) -> Result<ApiKey> {
        self.control.revoke_key_of(owner, id).await
    }

    /// Reads the metadata of two files of each account, some 3 µs.
    async fn marks(&self, accounts: Vec<Account>) -> Result<Vec<Mark>> {
        let folder = Arc::clone(&self.folder);
        let look = move || Ok(accounts.iter().map(|account| folder.mark(account)).collect());
        self.folder.runtime.blocking().run(look).await
    }

    async fn size(&self, account: &Account) -> Result<StoredSize> {
        let (folder, account) = (Arc::clone(&self.folder), account.clone());
        self.folder.runtime.blocking().run(move || Ok(folder.size(&account))).await
    }

    fn stats(&self) -> HomeStats {
        self.folder.runtime.stats()
    }

    async fn free_space(&self) -> Result<Option<u64>> {
        let folder = Arc::clone(&self.folder);
        self.folder.runtime.blocking().run(move || Ok(free_space(&folder.path))).await
    }

    async fn backup(&self, folder: &Path) -> Result<Vec<(String, Result<Backup>)>> {
        Self::backup(self, folder).await
    }
}
