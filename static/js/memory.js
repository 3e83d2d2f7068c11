// What a reader chose, kept in the browser. Imported only: a page never loads this file by itself.
export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Storage may be switched off; the choice then lasts as long as the page.
  }
}

export function remembered(name, otherwise) {
  try {
    return localStorage.getItem(name) ?? otherwise;
  } catch {
    return otherwise;
  }
}
