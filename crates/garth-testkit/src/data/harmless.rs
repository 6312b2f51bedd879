//! Spans that look random but are not secrets: links, digests, ids, paths, addresses, public keys, and
//! content of lock files and minified code. They are generated from a seed, in typical texts.

use crate::data::random::Random;
use crate::data::template::fill;

/// A text with a harmless span.
#[derive(Clone, Debug)]
pub struct Harmless {
    /// Sort of the span.
    pub kind: &'static str,
    /// Text with the span.
    pub text: String,
}

/// Links of services.
const LINKS: &[&str] = &[
    "https://docs.google.com/document/d/{u44}/edit?usp=sharing",
    "https://docs.google.com/spreadsheets/d/{u44}/edit#gid={d9}",
    "https://docs.google.com/forms/d/e/1FAIpQLS{u50}/viewform",
    "https://drive.google.com/file/d/{u33}/view",
    "https://drive.google.com/drive/folders/{u33}?usp=drive_link",
    "https://colab.research.google.com/drive/{u33}#scrollTo={u12}",
    "https://www.figma.com/file/{a22}/Design-System?node-id={d3}%3A{d4}&t={a16}-1",
    "https://www.figma.com/design/{a22}/{w}-{w}?node-id={d4}-{d4}&p=f",
    "https://open.spotify.com/track/{a22}?si={h16}",
    "https://open.spotify.com/playlist/{a22}?si={u22}",
    "https://www.youtube.com/watch?v={u11}&list=PL{u32}",
    "https://youtu.be/{u11}?si={u16}",
    "https://www.notion.so/acme/{w}-{w}-{h32}?pvs=4",
    "https://www.dropbox.com/scl/fi/{l21}/{w}.pdf?rlkey={l25}&dl=0",
    "https://github.com/rust-lang/rust/commit/{h40}",
    "https://github.com/rust-lang/rust/compare/{h40}...{h40}",
    "https://github.com/acme/{w}/blob/{h40}/src/{w}.rs#L10-L20",
    "https://gist.github.com/alice/{h32}",
    "https://gitlab.com/acme/{w}/-/merge_requests/12/diffs?commit_id={h40}",
    "https://airtable.com/app{a14}/tbl{a14}/viw{a14}?blocks=hide",
    "https://miro.com/app/board/uXj{u9}=/?share_link_id={d12}",
    "https://www.loom.com/share/{h32}?sid={h8}-{h4}-{h4}-{h4}-{h12}",
    "https://acme.slack.com/archives/C{U10}/p{d16}?thread_ts={d10}.{d6}",
    "https://discord.com/channels/{d18}/{d18}/{d18}",
    "https://x.com/alice/status/{d19}?s=20&t={u22}",
    "https://www.instagram.com/p/{u11}/?igsh={a20}==",
    "https://www.facebook.com/alice/posts/pfbid0{a64}",
    "https://www.linkedin.com/feed/update/urn:li:activity:{d19}/?rcm=ACoAA{u34}",
    "https://www.tiktok.com/@alice/video/{d19}?_t={u11}&_r=1",
    "https://medium.com/@alice/{w}-{w}-{h12}",
    "https://www.google.com/maps/place/data=!4m6!3m5!1s0x{h16}:0x{h16}!8m2!3d{d2}.{d7}!16s%2Fg%2F{l11}",
    "https://maps.app.goo.gl/{a17}",
    "https://www.amazon.com/dp/B0{U8}?ref=cm_sw_r_{a20}&psc=1",
    "https://acme-uploads.s3.amazonaws.com/{h8}-{h4}-{h4}-{h4}-{h12}/{a40}.png",
    "https://d{l13}.cloudfront.net/{a32}/{u24}.js",
    "https://fonts.gstatic.com/s/inter/v13/{u60}.woff2",
    "https://lh3.googleusercontent.com/a/{u80}=s96-c",
    "https://etherscan.io/token/0x{x40}?a=0x{x40}",
    "https://etherscan.io/tx/0x{h64}",
    "https://solscan.io/tx/{b88}",
    "https://solscan.io/token/{b44}",
    "https://ipfs.io/ipfs/Qm{b44}/metadata.json",
    "https://huggingface.co/acme/{w}/resolve/{h40}/model.safetensors",
    "https://acme.atlassian.net/wiki/spaces/ENG/pages/{d9}/{w}?atlOrigin={u60}",
    "https://trello.com/c/{a8}/12-{w}-{w}",
    "https://linear.app/acme/issue/ENG-{d3}/{w}-{w}#comment-{h8}",
    "https://app.asana.com/0/{d16}/{d16}/f",
    "https://www.canva.com/design/DA{u9}/{u22}/edit?utm_content=DA{u9}",
    "https://whimsical.com/{w}-{a22}@{a22}",
    "https://excalidraw.com/#json={u21},{u22}",
    "https://1drv.ms/w/s!{u22}?e={a6}",
    "https://acme.sharepoint.com/:w:/s/{w}/E{u44}?e={a6}",
    "https://app.box.com/s/{l32}",
    "https://wetransfer.com/downloads/{h46}/{h6}",
    "https://chat.whatsapp.com/{a22}",
    "https://t.me/+{u22}",
    "https://dashboard.stripe.com/prices/price_1{a23}",
    "https://dashboard.stripe.com/test/customers/cus_{a24}",
    "https://acme.sentry.io/issues/{d10}/events/{h32}/",
    "https://web.archive.org/web/{d14}/https://example.org/{a30}",
    "https://www.overleaf.com/read/{z12}#{h6}",
    "https://calendar.google.com/calendar/event?eid={a70}",
    "https://mail.google.com/mail/u/0/#inbox/{a32}",
    "https://outlook.office.com/mail/id/{a120}%3D",
    "https://chatgpt.com/share/{h8}-{h4}-{h4}-{h4}-{h12}",
    "https://claude.ai/public/artifacts/{h8}-{h4}-{h4}-{h4}-{h12}",
    "https://www.reddit.com/r/rust/comments/{l7}/{w}_{w}/?share_id={u21}&utm_name=ioscss",
    "https://example.org/wiki/%E3%83%88%E3%83%BC%E3%82%AF%E3%83%B3?oldid={a26}",
    "docs.google.com/document/d/{u44}",
    "figma.com/file/{a22}/{w}",
];

/// Digests, as tools write them.
const DIGESTS: &[&str] = &[
    "{h32}",
    "{h40}",
    "{h64}",
    "{H64}",
    "{h128}",
    "sha256:{h64}",
    "md5:{h32}",
    "sha256-{B43}=",
    "sha384-{B64}",
    "sha512-{B86}==",
    "sha1-{B27}=",
    "h1:{B43}=",
    "SHA256:{B43}",
    "docker.io/library/alpine@sha256:{h64}",
    "ghcr.io/acme/{w}:1.2.3@sha256:{h64}",
    "10c0/{h128}",
    "blake3-{B43}=",
    "sha512:{B86}==",
];

/// Identifiers.
const IDS: &[&str] = &[
    "{h8}-{h4}-4{h3}-a{h3}-{h12}",
    "{H8}-{H4}-4{H3}-A{H3}-{H12}",
    "01{c24}",
    "{u21}",
    "{a27}",
    "c{l24}",
    "{h24}",
    "price_1{a23}",
    "prod_{a14}",
    "cus_{a14}",
    "sub_1{a23}",
    "pi_3{a23}",
    "evt_1{a23}",
    "acct_1{a16}",
    "C0{U9}",
    "U0{U9}",
    "{d10}.{d6}",
    "{d19}",
    "msg_01{a22}",
    "toolu_01{a22}",
    "chatcmpl-{a29}",
    "call_{a24}",
    "{a28}",
    "UC{u22}",
    "spotify:track:{a22}",
    "arn:aws:lambda:eu-west-1:{d12}:function:{w}-{a24}",
    "00-{h32}-{h16}-01",
    "{w}-{l10}-{l5}",
    "G-{U10}",
    "pk_live_{a24}",
    "req_{a24}",
];

/// Paths of files.
const PATHS: &[&str] = &[
    "/var/lib/docker/overlay2/{h64}/merged",
    "/home/alice/.cache/{w}/{u32}/model.bin",
    "node_modules/.pnpm/{w}@1.2.3_{l26}/node_modules/{w}",
    "/nix/store/{l32}-{w}-1.2.3/bin/{w}",
    "C:\\Users\\Alice\\AppData\\Local\\{a24}\\{w}.dll",
    "dist/assets/index-{u24}.js",
    "static/chunks/{w}.{a28}.css",
    "/tmp/tmp.{a24}/out",
    "/tmp/{a32}",
    ".git/objects/4f/{h38}",
    "target/debug/deps/{w}-{h16}",
    "~/Library/Containers/{H8}-{H4}-{H4}-{H4}-{H12}/Data",
    "data/{u40}.parquet",
    "./uploads/{a32}.png",
    "{a32}.png",
    "../{w}/{a40}/part-00000-{h8}.snappy",
    "s3://acme-{w}/{a36}/{w}.json",
    "file:///Users/alice/{a28}/{w}.pdf",
];

/// Addresses of blockchains and of mail.
const ADDRESSES: &[&str] = &[
    "0x{x40}",
    "0x{h64}",
    "1{b33}",
    "3{b33}",
    "bc1q{l38}",
    "{b44}",
    "T{b33}",
    "r{b33}",
    "addr1q{l98}",
    "4{b94}",
    "bounces+{d7}-{h4}-{u32}@mail.example.com",
    "<{u40}@mail.gmail.com>",
    "reply+{U60}@reply.example.com",
    "{a30}.{w}@example.org",
];

/// Public keys.
const PUBLIC: &[&str] = &[
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{B43} alice@example.org",
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{B500} alice@example.org",
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABB{B87}=",
    "age1{l58}",
    "-----BEGIN PUBLIC KEY-----\n{B64}\n{B64}\n{B64}\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\n{B64}\n{B64}\n{B64}\n{B30}==\n-----END CERTIFICATE-----",
    "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{B64}\n{B64}\n{B50}\n={B4}\n-----END PGP PUBLIC KEY BLOCK-----",
    "-----BEGIN PGP SIGNATURE-----\n\n{B64}\n{B64}\n={B4}\n-----END PGP SIGNATURE-----",
    "[Peer]\nPublicKey = {B43}=\nAllowedIPs = 10.0.0.2/32",
    "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"{u43}\",\"y\":\"{u43}\"}",
    "public_key: {B43}=",
    "minisign public key: RW{B54}",
    "The public key of the server is {B43}=.",
];

/// Texts that contain such spans themselves.
const TEXTS: &[(&str, &str)] = &[
    ("data URL", "![{w}](data:image/png;base64,iVBORw0KGgo{B400}==)"),
    ("data URL", "src: url(data:font/woff2;charset=utf-8;base64,d09GMgAB{B300}=) format('woff2');"),
    ("data URL", "{\"token\": \"data:image/jpeg;base64,/9j/4AAQSkZJRg{B200}\"}"),
    ("data URL", "//# sourceMappingURL=data:application/json;charset=utf-8;base64,eyJ2ZXJzaW9uIjozL{B200}"),
    ("commit range", "git log {h40}..{h40}"),
    ("commit range", "Merged {h7}...{h7} into main ({h12})."),
    (
        "lock file",
        "[[package]]\nname = \"token-store\"\nversion = \"0.{d2}.1\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"{h64}\"\n",
    ),
    (
        "lock file",
        "    \"node_modules/js-tokens\": {\n      \"version\": \"4.0.{d1}\",\n      \"resolved\": \"https://packages.example/js-tokens/-/js-tokens-4.0.0.tgz\",\n      \"integrity\": \"sha512-{B86}==\"\n    },\n",
    ),
    (
        "lock file",
        "jsonwebtoken@^9.0.0:\n  version \"9.0.{d1}\"\n  resolved \"https://packages.example/jsonwebtoken-9.0.2.tgz#{h40}\"\n  integrity sha512-{B86}==\n",
    ),
    (
        "lock file",
        "\"get-password@npm:^2.0.0\":\n  version: 2.0.{d1}\n  checksum: 10c0/{h128}\n  linkType: hard\n",
    ),
    ("lock file", "  /csrf-token@3.1.{d1}:\n    resolution: {integrity: sha512-{B86}==}\n    dev: false\n"),
    (
        "lock file",
        "github.com/acme/oauth2-token v0.{d1}.0 h1:{B43}=\ngithub.com/acme/oauth2-token v0.9.0/go.mod h1:{B43}=\n",
    ),
    ("lock file", "{file = \"secret_token-1.{d1}-py3-none-any.whl\", hash = \"sha256:{h64}\"},\n"),
    ("lock file", "    \"password-hash\": [\"password-hash@1.{d1}.2\", \"\", {}, \"sha512-{B86}==\"],\n"),
    (
        "lock file",
        "  \"nixpkgs\": {\n    \"locked\": {\n      \"narHash\": \"sha256-{B43}=\",\n      \"rev\": \"{h40}\"\n",
    ),
    ("lock file", "  \"secrets\": {\n    \"integrity\": \"{h64}\",\n    \"hash\": \"{B43}=\"\n  }\n"),
    ("version", "auth-token 1.{d2}.3-beta.4+build.{h7}"),
    ("version", "require github.com/acme/secret v0.0.0-{d14}-{h12}"),
    ("version", "image: acme/token-service:v1.2.{d2}-{h8}-linux-amd64"),
    (
        "minified",
        "!function(e,t){e.token=t.n({d4}),e.password=t.r({d3}).Z,e.a{a2}=function(){return{key:e.k{a2},secret:t.{z2}}}}(n,{d4});",
    ),
    ("minified", "{{d3}:\"{h20}\",{d3}:\"{h20}\",{d4}:\"{h20}\"}[e]+\".chunk.js\""),
    ("minified", "var {z1}={tokenType:\"Bearer\",className:\"_button_{a5}_{d2} css-{l7}\",id:\"{u24}\"};"),
    ("minified", "\"mappings\":\"AAAA,SAASA,{a4};{a5},CAAC,{a6},IAAI;{a4},{a5};AACA\""),
    ("minified", "const t=new Map([[\"k{a6}\",()=>r.e({d3}).then(r.bind(r,{d5}))]]);e.exports=\"{a32}\";"),
    (
        "other script",
        "パスワードは設定画面で変更できます。トークン：{d6}回まで、資料は https://example.jp/d/{u44} です。",
    ),
    (
        "other script",
        "Пароль меняется в настройках, токен не нужен: https://example.ru/doc/{u44}, версия {h40}.",
    ),
    ("other script", "令牌说明见文档：https://docs.example.cn/d/{u44}。编号{u21}，密码请向管理员索取。"),
    ("other script", "토큰 문서는 https://example.kr/{a44} 에 있습니다. 비밀번호는 8자 이상이어야 합니다."),
    ("other script", "رمز المرور في صفحة الإعدادات https://example.org/ar/{u44} والمعرف {a27}"),
    ("other script", "הסיסמה נמצאת בהגדרות, המסמך: https://example.org/he/{u44}"),
    ("other script", "Το συνθηματικό αλλάζει εδώ: https://example.gr/{u44} και ο κωδικός {h32}"),
    ("other script", "पासवर्ड सेटिंग्स में बदलें: https://example.in/{u44}"),
    ("other script", "รหัสผ่านอยู่ที่ https://example.th/{u44} และ token หมดอายุแล้ว"),
];

/// Texts around a link or a path, some with words that name secrets.
const AROUND_PLACES: &[&str] = &[
    "See {} for details.\n",
    "- [notes]({})\n",
    "{\"url\": \"{}\", \"token_type\": \"bearer\"}\n",
    "url: {}\n",
    "<{}>\n",
    "| {} | open |\n",
    "The API key is explained in {} (ask Ann).\n",
    "Password and token: see {}\n",
    "export DOCS_URL='{}'\n",
    "The token:\n{}\n",
    "{\"text\": \"the secret plan \\\"{}\\\"\\nnext\"}\n",
];

/// Texts around an id, a digest or an address.
const AROUND_IDS: &[&str] = &[
    "See {} for details.\n",
    "- `{}`\n",
    "{\"id\": \"{}\", \"tokens\": 4096}\n",
    "{\"token_type\": \"bearer\", \"id\": \"{}\", \"password\": null}\n",
    "id: {}\n",
    "| name | {} |\n",
    "digest={}\n",
    "The token was revoked. The id is {}.\n",
    "The token address is {}, says the explorer.\n",
    "secrets:\n  - id: {}\n",
    "client.fetch(\"{}\")\n",
    "The password was reset by request {} yesterday.\n",
    "{\"text\": \"Item \\\"{}\\\"\\nhas a token\"}\n",
];

/// Values of logs, commits and configurations that are not secrets.
const VALUES: &[&str] = &[
    "req-{h8}",
    "req_{a12}",
    "PROJ-{d5}",
    "issue-{d4}-fix",
    "v2.{d1}.0-rc3",
    "2.{d2}.{d1}-beta.4",
    "HMAC-SHA256",
    "x86_64-linux",
    "gpt-4o-2024-08-{d2}",
    "node{d2}-alpine3.18",
    "{h8}-{h4}-4{h3}-a{h3}-{h12}",
    "{h7}",
    "{h12}",
    "{h40}",
    "{h64}",
    "trace_id={h32}",
    "Zone{d1}-{d1}",
    "2026-01-{d2}",
    "2026-01-27T09:30:{d2}Z",
    "2026-01-27T09:30:{d2}.{d3}+02:00",
    "20260127T0930{d2}Z",
    "C:/Users/Ann{d1}",
    "D:\\Data{d1}\\Run",
    "/srv/auth{d1}/run",
    "src/Auth{d1}/handler",
    "cfg.Auth{d1}.Mode",
    "user{d2}@example.org",
    "#{H8}",
    "#{h6}",
    "10.0.0.{d2}:8080",
    "sha256:{h64}",
];

/// Texts around values: names of many things, and words after names that change their meaning.
const AROUND_VALUES: &[&str] = &[
    "auth: {}\n",
    "2026-01-27T09:30:00Z INFO auth: {} done\n",
    "auth={}\n",
    "pass: {}\n",
    "ski pass: {}\n",
    "pwd: {}\n",
    "pw = {}\n",
    "{\"auth\": \"{}\", \"n\": 1}\n",
    "feat(auth): {}\n",
    "fix(token): {}\n",
    "fix(password)!: {}\n",
    "token fix: {}\n",
    "token refresh: {} by the job\n",
    "Secret santa: {}\n",
    "secret rotated: {}\n",
    "the token expires: {}\n",
    "API key rotation: {}\n",
    "password reset: {}\n",
    "| auth | state |\n|---|---|\n| {} | open |\n",
    "auth:\n  {}\n",
];

/// Times, colours, versions and names in programs.
const TIMES: &[&str] = &[
    "2026-01-{d2}",
    "2026-01-27T09:30:{d2}Z",
    "2026-01-27t09:30:{d2}z",
    "2026-01-27T09:30:{d2}.{d6}-05:30",
    "20260127T0930{d2}Z",
    "2026/01/{d2}",
    "v2.{d1}.0-rc3",
    "^1.{d2}.3-beta.4",
    "C:/Users/Ann{d1}",
    "cfg.Db{d1}.Password,",
    "opts.Token{d1};",
    "req.body.secret{d1},",
    "user->pass{d2},",
];

/// Names of secrets next to such a value.
const AROUND_TIMES: &[&str] = &[
    "token expires: {}\n",
    "secret rotated: {}\n",
    "token: {}\n",
    "  Password: {}\n",
    "api_key = {}\n",
    "secret: {}\n",
    "Passwd: {}\n",
    "password:\n{}\n",
    "The password for staging is: {}\n",
];

/// Returns each template once in a text, with new random parts each time.
pub fn each(random: &mut Random) -> Vec<Harmless> {
    let mut all = Vec::new();
    let sets: [(&'static str, &[&str], &[&str]); 8] = [
        ("link", LINKS, AROUND_PLACES),
        ("digest", DIGESTS, AROUND_IDS),
        ("id", IDS, AROUND_IDS),
        ("path", PATHS, AROUND_PLACES),
        ("address", ADDRESSES, AROUND_IDS),
        ("public key", PUBLIC, &["{}\n", "Trust this one:\n\n{}\n\nand no other.\n"]),
        ("value of a weak name", VALUES, AROUND_VALUES),
        ("time, version or name", TIMES, AROUND_TIMES),
    ];
    for (kind, templates, around) in sets {
        for template in templates {
            let text = random.pick(around).replace("{}", &fill(random, template));
            all.push(Harmless { kind, text });
        }
    }
    all.extend(TEXTS.iter().map(|(kind, template)| Harmless { kind, text: fill(random, template) }));
    all
}
