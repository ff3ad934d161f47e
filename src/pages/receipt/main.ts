// The only script of a receipt. It shows the print button, and adds the reader's time to each UTC
// time on the screen. A printed receipt has only the UTC times.
const button = document.querySelector<HTMLButtonElement>('#print');
if (button !== null) {
  button.hidden = false;
  button.addEventListener('click', () => print());
}

const day = { year: 'numeric', month: 'short', day: 'numeric' } as const;
const minute = { ...day, hour: '2-digit', minute: '2-digit', timeZoneName: 'short' } as const;
const language = document.documentElement.lang;
const locale = navigator.languages.find((tag) => tag.split('-', 1)[0] === language) ?? language;
const format = new Intl.DateTimeFormat(locale, minute);
for (const time of document.querySelectorAll('time')) {
  const at = new Date(time.dateTime);
  if (at.getTimezoneOffset() === 0) continue;
  const message = document.createElement('span');
  message.className = 'muted no-print';
  message.textContent = ` (${format.format(at)})`;
  time.append(message);
}
