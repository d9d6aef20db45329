// Settings of @hey-api/openapi-ts. With zod, the client rejects a response that does not match the document.
export default {
  input: "../openapi.json",
  output: { path: "holdpoint_client", importFileExtension: ".js" },
  plugins: ["@hey-api/client-fetch", "@hey-api/typescript", "zod", { name: "@hey-api/sdk", validator: true }],
};
