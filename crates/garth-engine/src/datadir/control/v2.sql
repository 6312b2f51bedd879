-- Format 2 of control.db: accounts that are being deleted are found whatever others there are.
CREATE INDEX account_deleted ON account (id) WHERE deleted = 1;
