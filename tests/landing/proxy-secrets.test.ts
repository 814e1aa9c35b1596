/** A proxy's login in the environment isn't published with what a check says. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { withoutProxySecrets } from "../../src/landing/proxy-secrets.ts";

test("logins of proxies are hidden as they are written, decoded, and the password alone", () => {
  const env = {
    https_proxy: "http://user:s3cr%40t%2Fword@proxy:3128",
    HTTP_PROXY: "me:pw@proxy",
    all_proxy: "socks5://only@proxy:1",
    no_proxy: "user:kept@here",
    OTHER: "http://user:stays@proxy",
    ftp_proxy: "",
  };
  for (
    const [said, shown] of [
      ["https_proxy=http://user:s3cr%40t%2Fword@proxy:3128", "https_proxy=http://…@proxy:3128"],
      ["password s3cr%40t%2Fword or s3cr@t/word.", "password … or …."],
      ["HTTP_PROXY=me:pw@proxy, pw and pw@x", "HTTP_PROXY=…@proxy, pw and …@x"],
      ["socks5://only@proxy:1", "socks5://…@proxy:1"],
      ["user:kept@here http://user:stays@proxy", "user:kept@here http://user:stays@proxy"],
      ["user and only", "user and only"],
      ["", ""],
    ] as const
  ) assert.equal(withoutProxySecrets(said, env), shown);
  assert.equal(withoutProxySecrets("as it is", { http_proxy: "http://%zz:%@proxy" }), "as it is");
  assert.equal(
    withoutProxySecrets("http://proxy:1/", { http_proxy: "http://proxy:1/" }),
    "http://proxy:1/",
  );
});

test("whatever the password, neither it nor its url is left", () => {
  fc.assert(fc.property(
    fc.string({ unit: "binary-ascii", minLength: 6 }).filter((word) => !"…@".includes(word)),
    fc.string(),
    fc.string(),
    (password, before, after) => {
      const written = encodeURIComponent(password);
      const url = `http://u:${written}@proxy`;
      const shown = withoutProxySecrets(`${before}${url} ${password}${after}`, { http_proxy: url });
      assert.ok(!shown.includes(`${written}@`), shown);
      assert.ok(!shown.includes(password), shown);
    },
  ));
});
