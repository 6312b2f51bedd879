//! Fake secrets of many services, generated from a seed, in texts as people write them. Their marks are
//! assembled here, so that scanners of repositories find nothing.

use crate::data::harmless;
use crate::data::random::Random;
use crate::data::template::fill;

/// A secret and its names.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Its name in a configuration, such as `stripe_secret_key`.
    pub name: &'static str,
    /// Its name in prose.
    pub said: &'static str,
    /// The secret.
    pub secret: String,
}

/// A text with a secret.
#[derive(Clone, Debug)]
pub struct Written {
    /// Sort of the text: `prose`, `JSON`, and so on.
    pub form: &'static str,
    /// Text.
    pub text: String,
}

/// Names, and templates whose parts are joined.
const KINDS: &[(&str, &str, &[&str])] = &[
    ("aws_access_key_id", "AWS access key", &["AK", "IA{T16}"]),
    ("aws_secret_access_key", "AWS secret access key", &["{B40}"]),
    ("github_token", "GitHub token", &["gh", "p_{a36}"]),
    ("github_pat", "GitHub access token", &["github", "_pat_{a22}_{a59}"]),
    ("gitlab_token", "GitLab token", &["gl", "pat-{u20}"]),
    ("slack_bot_token", "Slack bot token", &["xo", "xb-{d12}-{d12}-{a24}"]),
    ("slack_webhook_url", "Slack webhook", &["https://hooks.", "slack.com/services/T{U10}/B{U10}/{a24}"]),
    ("discord_webhook", "Discord webhook", &["https://discord.com/api/", "webhooks/{d18}/{u68}"]),
    ("discord_bot_token", "Discord bot token", &["M", "T{a24}.{u6}.{u38}"]),
    ("telegram_bot_token", "Telegram bot token", &["{d10}:", "AA{u33}"]),
    ("stripe_secret_key", "Stripe secret key", &["sk", "_live_{a24}"]),
    ("stripe_restricted_key", "Stripe API key", &["rk", "_live_{a24}"]),
    ("stripe_webhook_secret", "webhook secret", &["wh", "sec_{a32}"]),
    ("openai_api_key", "OpenAI API key", &["sk", "-proj-{u74}"]),
    ("anthropic_api_key", "Anthropic API key", &["sk", "-ant-api03-{u93}AA"]),
    ("huggingface_token", "Hugging Face token", &["h", "f_{a34}"]),
    ("groq_api_key", "Groq API key", &["gs", "k_{a52}"]),
    ("google_api_key", "Google API key", &["AI", "za{u35}"]),
    ("google_client_secret", "Google client secret", &["GOC", "SPX-{u28}"]),
    ("google_access_token", "Google access token", &["ya", "29.{u120}"]),
    ("npm_token", "npm token", &["np", "m_{a36}"]),
    ("pypi_token", "PyPI token", &["py", "pi-AgEIcHlwaS5vcmc{u100}"]),
    ("sendgrid_api_key", "SendGrid API key", &["S", "G.{u22}.{u43}"]),
    ("mailgun_api_key", "Mailgun API key", &["key", "-{h32}"]),
    ("mailchimp_api_key", "Mailchimp API key", &["{h32}", "-us12"]),
    ("twilio_auth_token", "Twilio auth token", &["{h32}"]),
    ("datadog_api_key", "Datadog API key", &["{h32}"]),
    ("heroku_api_key", "Heroku API key", &["{h8}-{h4}-4{h3}-a{h3}-{h12}"]),
    ("azure_client_secret", "Azure client secret", &["{a3}8Q~", "{u34}"]),
    ("azure_account_key", "storage account key", &["{B86}=="]),
    ("cloudflare_api_token", "Cloudflare API token", &["{u40}"]),
    ("auth0_client_secret", "client secret", &["{u64}"]),
    ("okta_api_token", "Okta API token", &["00{u40}"]),
    ("shopify_access_token", "Shopify access token", &["shp", "at_{h32}"]),
    ("square_access_token", "Square access token", &["sq0", "atp-{u22}"]),
    ("digitalocean_token", "DigitalOcean token", &["do", "p_v1_{h64}"]),
    ("databricks_token", "Databricks token", &["da", "pi{h32}"]),
    ("vault_token", "Vault token", &["hv", "s.{u24}"]),
    ("docker_token", "Docker access token", &["dckr", "_pat_{u27}"]),
    ("netlify_auth_token", "Netlify token", &["nf", "p_{a36}"]),
    ("postman_api_key", "Postman API key", &["PM", "AK-{h24}-{h34}"]),
    ("doppler_token", "Doppler token", &["dp.", "pt.{a43}"]),
    ("linear_api_key", "Linear API key", &["lin", "_api_{a40}"]),
    ("notion_token", "Notion integration token", &["nt", "n_{a46}"]),
    ("figma_token", "Figma token", &["fi", "gd_{u40}"]),
    ("newrelic_api_key", "New Relic API key", &["NR", "AK-{U27}"]),
    ("pulumi_access_token", "Pulumi access token", &["pu", "l-{h40}"]),
    ("tailscale_auth_key", "Tailscale auth key", &["ts", "key-auth-{a17}-{a32}"]),
    ("age_secret_key", "age secret key", &["AGE-SEC", "RET-KEY-1{T58}"]),
    ("wireguard_private_key", "WireGuard private key", &["{B43}="]),
    ("totp_secret", "TOTP secret", &["{T32}"]),
    ("rails_master_key", "Rails master key", &["{h32}"]),
    ("eth_private_key", "private key of the wallet", &["0x{h64}"]),
    ("btc_private_key", "private key of the wallet", &["K{b51}"]),
    ("jwt_token", "session token", &["ey", "JhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.ey", "J{u90}.{u43}"]),
    ("db_password", "database password", &["{a7}!{a6}"]),
    ("admin_password", "admin password", &["{a14}"]),
    ("smtp_password", "SMTP password", &["{s16}"]),
    ("wifi_password", "password of the wifi", &["{z6}{d1}{z3}"]),
    ("user_password", "password", &["{z1}{d1}{a6}"]),
    ("session_secret", "session secret", &["{a32}"]),
    ("encryption_key", "encryption key", &["{B43}="]),
];

/// Private keys: the text between the dashes, and the number of lines.
const BLOCKS: &[(&str, usize)] = &[
    ("RSA PRIVATE KEY", 24),
    ("PRIVATE KEY", 26),
    ("EC PRIVATE KEY", 3),
    ("OPENSSH PRIVATE KEY", 37),
    ("PGP PRIVATE KEY BLOCK", 100),
];

/// Returns one secret of each kind of one line.
pub fn each(random: &mut Random) -> Vec<Credential> {
    let one = |(name, said, parts): &(&'static str, &'static str, &[&str])| {
        let secret = parts.iter().map(|part| fill(random, part)).collect();
        Credential { name, said, secret }
    };
    KINDS.iter().map(one).collect()
}

/// Returns one private key of each kind.
pub fn keys(random: &mut Random) -> Vec<Credential> {
    let one = |(label, lines): &(&'static str, usize)| {
        // PGP blocks have an empty line after their header.
        let first = if label.starts_with("PGP") { "\n" } else { "" };
        let body: String = (0..*lines).map(|_| fill(random, "{B64}\n")).collect();
        let secret = format!(
            "-----BEGIN {label}-----\n{first}{body}{}==\n-----END {label}-----",
            fill(random, "{B22}")
        );
        Credential { name: "private_key", said: label, secret }
    };
    BLOCKS.iter().map(one).collect()
}

/// Returns texts with a secret, as people write them.
pub fn written(credential: &Credential) -> Vec<Written> {
    let Credential { name, said, secret } = credential;
    let (env, flag, camel) = (name.to_uppercase(), name.replace('_', "-"), camel(name));
    let json = serde_json::to_string(secret).unwrap_or_default();
    let mut all = Vec::new();
    let mut add = |form, text: String| all.push(Written { form, text });
    add("JSON", format!("{{\"region\": \"eu\", \"{name}\": {json}, \"retries\": 3}}\n"));
    add("JSON", format!("{{\n  \"{camel}\": {json}\n}}\n"));
    add(
        "JSON",
        format!(
            "{{\"role\":\"user\",\"content\":{}}}\n",
            serde_json::json!(format!("the {said} is {secret}"))
        ),
    );
    // Keys of several lines fit into fewer forms.
    if secret.contains('\n') {
        add("prose", format!("Here is the {said} of the server:\n\n{secret}\n\nKeep it.\n"));
        add("YAML", format!("{name}: |\n  {}\nnext: 1\n", secret.replace('\n', "\n  ")));
        add("shell", format!("cat > key.pem <<EOF\n{secret}\nEOF\n"));
        add(".env", format!("{env}={json}\n"));
        return all;
    }
    add("JSON", format!("{{\"env\": [{{\"name\": \"{env}\", \"value\": {json}}}]}}\n"));
    add("prose", format!("The {said} is {secret} since Monday.\n"));
    add("prose", format!("Please use {secret} as the {said}.\n"));
    add("prose", format!("{said}: `{secret}`\n"));
    add("prose", format!("Here is the {said} for staging:\n\n{secret}\n\nKeep it.\n"));
    add("prose", format!("| what | value |\n|---|---|\n| {said} | {secret} |\n"));
    add("YAML", format!("server:\n  {name}: \"{secret}\"\n  port: 80\n"));
    add("YAML", format!("{camel}: {secret}\n"));
    add("YAML", format!("env:\n  - name: {env}\n    value: {secret}\n"));
    add("shell", format!("export {env}='{secret}'\n"));
    add("shell", format!("deploy --{flag} '{secret}' --verbose\n"));
    add("shell", format!("curl -H 'X-{flag}: {secret}' https://api.example.org/v1\n"));
    add(".env", format!("DEBUG=1\n{env}={secret}\nPORT=80\n"));
    add(".env", format!("{env}=\"{secret}\" # for staging\n"));
    all.extend(apart(credential));
    all.extend(enclosed(credential));
    if name.ends_with("password") {
        all.extend(commands(secret));
    }
    let mut add = |form, text: String| all.push(Written { form, text });
    // Other characters would have to be escaped in a URL.
    if secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~!".contains(&byte)) {
        add("URL", format!("DATABASE_URL=postgres://app:{secret}@db.example.org:5432/main\n"));
        add("URL", format!("git clone https://alice:{secret}@git.example.org/acme/app.git\n"));
        add("URL", format!("See https://api.example.org/v1/items?page=2&{name}={secret}&limit=5\n"));
    }
    add("header", format!("GET / HTTP/1.1\r\nHost: example.org\r\nAuthorization: Bearer {secret}\r\n\r\n"));
    add("header", format!("X-{}: {secret}\r\nAccept: */*\r\n", flag));
    add("code", format!("client = Client({name}=\"{secret}\", retries=3)\n"));
    add("code", format!("os.environ[\"{env}\"] = \"{secret}\"\n"));
    add("code", format!("const {camel} = '{secret}';\n"));
    all
}

/// Returns texts with a secret on another line than its name, in another order, or in strings of strings.
fn apart(credential: &Credential) -> Vec<Written> {
    let Credential { name, said, secret } = credential;
    let env = name.to_uppercase();
    let json = serde_json::to_string(secret).unwrap_or_default();
    let mut nested = format!("{{\"{name}\": {json}}}");
    for key in ["arguments", "content", "body"] {
        nested = serde_json::json!({ key: nested }).to_string();
    }
    let texts = [
        ("next line", format!("{said}:\n{secret}\n")),
        ("next line", format!("{name} =\n{secret}\nnext = 1\n")),
        ("next line", format!("The {said} is:\n\n```\n{secret}\n```\n\nKeep it.\n")),
        ("next line", format!("Here is the {said} for staging:\n```text\n{secret}\n```\n")),
        ("next line", format!("{name}: |\n  {secret}\nnext: 1\n")),
        ("next line", format!("{name}: >-\r\n  {secret}\r\nnext: 1\r\n")),
        ("table", format!("| user | {said} |\n|---|---|\n| ann | {secret} |\n| bob | - |\n")),
        (
            "table",
            format!(
                "| user | {name} | since |\n|:--|:-:|---|\n| bob | | now |\n| ann | `{secret}` | 2026 |\n"
            ),
        ),
        ("table", format!("user,{name},since\nann,{secret},2026\n")),
        ("table", format!("{name}\tuser\n{secret}\tann\n")),
        ("row", format!("PORT\t80\n{env}\t{secret}\nDEBUG\t1\n")),
        (
            "JSON",
            format!("[{{\"value\":{json},\"name\":\"{env}\"}},{{\"value\":\"1\",\"name\":\"DEBUG\"}}]\n"),
        ),
        ("JSON", format!("{{\"Value\": {json}, \"Type\": \"String\", \"Key\": \"{env}\"}}\n")),
        ("JSON", format!("{{\"name\": \"{env}\", \"type\": \"plain\", \"value\": {json}}}\n")),
        ("JSON in JSON", nested + "\n"),
        ("TOML", format!("{name} = '''{secret}'''\nport = 80\n")),
        ("TOML", format!("{name} = \"\"\"{secret}\"\"\"\n")),
        ("TOML", format!("{name} = \"\"\"\n{secret}\"\"\"\n")),
    ];
    texts.into_iter().map(|(form, text)| Written { form, text }).collect()
}

/// Returns texts with a secret in brackets, an object or an expression, below a column of SQL, or behind
/// entities.
fn enclosed(credential: &Credential) -> Vec<Written> {
    let Credential { name, secret, .. } = credential;
    let env = name.to_uppercase();
    let json = serde_json::to_string(secret).unwrap_or_default();
    let texts = [
        ("brackets", format!("\"{name}\": [{json}],\n")),
        ("brackets", format!("{name} = ({json})\n")),
        ("brackets", format!("{{\n  \"{name}\": [\n    {json}\n  ]\n}}\n")),
        ("object", format!("\"{name}s\": {{\"prod\": {json}, \"dev\": null}}\n")),
        ("object", format!("{{\n  \"{name}s\": {{\n    \"prod\": {json}\n  }}\n}}\n")),
        ("expression", format!("const it = {{ {name}: process.env.{env} || {json} }};\n")),
        ("expression", format!("{name}: !!str {json}\n")),
        ("rows", format!("INSERT INTO it (id, {name}, n) VALUES (1, {json}, 2);\n")),
        ("rows", format!("INSERT INTO it (id, {name})\nVALUES\n  (1, {json}),\n  (2, NULL);\n")),
        ("entities", format!("<p>{name}=&quot;{secret}&quot;</p>\n")),
    ];
    texts.into_iter().map(|(form, text)| Written { form, text }).collect()
}

/// Returns commands and statements with a password, where it has no name.
fn commands(secret: &str) -> Vec<Written> {
    let texts = [
        ("command", format!("curl -u ann:{secret} https://api.example.org/v1\n")),
        ("command", format!("curl -s --user 'ann:{secret}' https://api.example.org/v1\n")),
        ("command", format!("curl -uann:{secret} -s https://api.example.org/v1\n")),
        ("command", format!("/usr/bin/sshpass -p '{secret}' ssh ann@example.org\n")),
        ("command", format!("sshpass -p{secret} ssh ann@example.org\n")),
        ("command", format!("mysql -u ann -p{secret} main\n")),
        ("command", format!("[\"sshpass\",\"-p\",\"{secret}\",\"ssh\",\"ann@example.org\"]\n")),
        ("command", format!("{{\"argv\": [\"curl\", \"-u\", \"ann:{secret}\"]}}\n")),
        ("command", format!("[\n  'docker',\n  'login',\n  '-p',\n  '{secret}',\n]\n")),
        ("SQL", format!("ALTER USER ann WITH PASSWORD '{secret}';\n")),
        ("SQL", format!("CREATE ROLE ann LOGIN ENCRYPTED PASSWORD '{secret}' VALID UNTIL 'infinity';\n")),
        ("SQL", format!("CREATE USER 'ann'@'%' IDENTIFIED BY '{secret}';\n")),
        ("SQL", format!("alter user ann identified with caching_sha2_password by '{secret}';\n")),
        ("SQL", format!("GRANT ALL ON *.* TO ann IDENTIFIED BY \"{secret}\";\n")),
    ];
    texts.into_iter().map(|(form, text)| Written { form, text }).collect()
}

/// Returns a text with all harmless spans and secrets in any order, on long and short lines.
pub fn mixed(random: &mut Random) -> String {
    let mut pieces: Vec<String> = harmless::each(random).into_iter().map(|it| it.text).collect();
    for credential in [each(random), keys(random)].concat() {
        let written = written(&credential);
        pieces.push(random.pick(&written).text);
    }
    let mut text = String::new();
    while !pieces.is_empty() {
        let piece = pieces.swap_remove(random.below(pieces.len() as u64) as usize);
        match random.below(4) {
            0 => text.push_str(piece.trim_end()),
            1 => text.push_str(&serde_json::Value::from(piece).to_string()),
            _ => text.push_str(&piece),
        }
        text.push_str(random.pick(&[" ", "\n", "\n\n", ", "]));
    }
    text
}

fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |camel, part| camel + &part[..1].to_uppercase() + &part[1..])
}
