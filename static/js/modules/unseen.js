// Characters that no reader sees, drawn as their numbers where a page draws texts by itself (runtime/kernel/unseen.py).

const UNSEEN = /(?![\t\n\r])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;
const USUAL = /[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f]$/u;

/** `text` with a mark in the place of every character that is not seen; those of a usual emoji stay. */
export function seen(text) {
  const drawn = (sign, at) => "\u200d\ufe0e\ufe0f".includes(sign) && USUAL.test(text.slice(0, at)) ? sign
    : `⟨U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
  return typeof text === "string" ? text.replace(UNSEEN, drawn) : text;
}
