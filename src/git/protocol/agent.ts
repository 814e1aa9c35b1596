/** How agentq calls itself to git servers. */
export const AGENT = "agentq/0.1.0";
