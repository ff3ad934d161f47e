// Texts of the HTML that the server sends. A browser shows these texts until the page's script
// runs. The page that is shown when a rate limit is reached or during an outage has no other texts.
import type { FastifyRequest } from 'fastify';

/**
 * `fact` is a sentence for the time before the page's script runs. The sentence tells the reader
 * that opening the page has changed nothing.
 */
interface PageWords {
  title: string;
  fact: string;
}

interface SiteWords {
  subscribe: PageWords;
  account: PageWords;
  receipt: PageWords;
  loading: string;
  notStarted: string;
  loadAgain: string;
  otherwise: string;
  needsScript: string;
  oneMoment: string;
  tooMany: string;
  unavailable: string;
  /** `{seconds}` is replaced with a number. */
  loadAgainIn: string;
}

const en: SiteWords = {
  subscribe: {
    title: 'Subscribe',
    fact: 'Nothing was signed and nothing was paid by opening this page.',
  },
  account: {
    title: 'My subscriptions',
    fact: 'Nothing was changed: your subscriptions continue as they are.',
  },
  receipt: { title: 'Receipt', fact: 'Nothing was changed by opening this page.' },
  loading: 'Loading…',
  notStarted: 'This page has not started',
  loadAgain: 'Load the page again',
  otherwise:
    'If that does not help, turn off extensions that block scripts, or try another browser or network.',
  needsScript: 'This page needs JavaScript to talk to your wallet.',
  oneMoment: 'One moment, please',
  tooMany: 'Too many requests came from your network within a minute.',
  unavailable: 'The service does not reach its database at the moment.',
  loadAgainIn: 'Load the page again in {seconds} seconds.',
};

const de: SiteWords = {
  subscribe: {
    title: 'Abonnieren',
    fact: 'Durch das Öffnen dieser Seite wurde nichts signiert und nichts bezahlt.',
  },
  account: {
    title: 'Meine Abos',
    fact: 'Es wurde nichts geändert: Ihre Abos laufen weiter wie bisher.',
  },
  receipt: { title: 'Zahlungsbeleg', fact: 'Durch das Öffnen dieser Seite wurde nichts geändert.' },
  loading: 'Wird geladen …',
  notStarted: 'Diese Seite ist nicht gestartet',
  loadAgain: 'Seite neu laden',
  otherwise:
    'Wenn das nicht hilft, schalten Sie Erweiterungen aus, die Skripte blockieren, oder versuchen Sie es mit einem anderen Browser oder Netzwerk.',
  needsScript: 'Diese Seite braucht JavaScript, um mit Ihrer Wallet zu sprechen.',
  oneMoment: 'Einen Moment bitte',
  tooMany: 'Aus Ihrem Netzwerk kamen innerhalb einer Minute zu viele Anfragen.',
  unavailable: 'Der Dienst erreicht seine Datenbank gerade nicht.',
  loadAgainIn: 'Laden Sie die Seite in {seconds} Sekunden neu.',
};

const es: SiteWords = {
  subscribe: {
    title: 'Suscribirse',
    fact: 'Al abrir esta página no se ha firmado ni pagado nada.',
  },
  account: {
    title: 'Mis suscripciones',
    fact: 'No se ha cambiado nada: sus suscripciones continúan como están.',
  },
  receipt: { title: 'Recibo', fact: 'Al abrir esta página no se ha cambiado nada.' },
  loading: 'Cargando…',
  notStarted: 'Esta página no se ha iniciado',
  loadAgain: 'Volver a cargar la página',
  otherwise:
    'Si eso no ayuda, desactive las extensiones que bloquean scripts o pruebe con otro navegador u otra red.',
  needsScript: 'Esta página necesita JavaScript para comunicarse con su billetera.',
  oneMoment: 'Un momento, por favor',
  tooMany: 'Han llegado demasiadas solicitudes desde su red en un minuto.',
  unavailable: 'El servicio no puede acceder a su base de datos en este momento.',
  loadAgainIn: 'Vuelva a cargar la página en {seconds} segundos.',
};

const fr: SiteWords = {
  subscribe: { title: 'S’abonner', fact: 'Ouvrir cette page n’a rien signé et rien payé.' },
  account: {
    title: 'Mes abonnements',
    fact: 'Rien n’a été modifié : vos abonnements continuent tels quels.',
  },
  receipt: { title: 'Reçu', fact: 'Ouvrir cette page n’a rien modifié.' },
  loading: 'Chargement…',
  notStarted: 'Cette page n’a pas démarré',
  loadAgain: 'Recharger la page',
  otherwise:
    'Si cela n’aide pas, désactivez les extensions qui bloquent les scripts, ou essayez un autre navigateur ou un autre réseau.',
  needsScript: 'Cette page a besoin de JavaScript pour communiquer avec votre portefeuille.',
  oneMoment: 'Un instant, s’il vous plaît',
  tooMany: 'Trop de requêtes sont venues de votre réseau en une minute.',
  unavailable: 'Le service n’arrive pas à joindre sa base de données pour le moment.',
  loadAgainIn: 'Rechargez la page dans {seconds} secondes.',
};

const pt: SiteWords = {
  subscribe: { title: 'Assinar', fact: 'Abrir esta página não assinou nem pagou nada.' },
  account: {
    title: 'Minhas assinaturas',
    fact: 'Nada foi alterado: suas assinaturas continuam como estão.',
  },
  receipt: { title: 'Recibo', fact: 'Abrir esta página não alterou nada.' },
  loading: 'Carregando…',
  notStarted: 'Esta página não foi iniciada',
  loadAgain: 'Carregar a página novamente',
  otherwise:
    'Se isso não ajudar, desative extensões que bloqueiam scripts ou tente outro navegador ou outra rede.',
  needsScript: 'Esta página precisa de JavaScript para se comunicar com sua carteira.',
  oneMoment: 'Um momento, por favor',
  tooMany: 'Muitas solicitações vieram da sua rede em um minuto.',
  unavailable: 'O serviço não consegue acessar seu banco de dados no momento.',
  loadAgainIn: 'Carregue a página novamente em {seconds} segundos.',
};

const ja: SiteWords = {
  subscribe: {
    title: '購読する',
    fact: 'このページを開いただけでは、署名も支払いも行われていません。',
  },
  account: { title: '購読の管理', fact: '何も変更されていません。購読はそのまま続いています。' },
  receipt: { title: '領収書', fact: 'このページを開いただけでは、何も変更されていません。' },
  loading: '読み込み中…',
  notStarted: 'このページは開始していません',
  loadAgain: 'ページを再読み込み',
  otherwise:
    '解決しない場合は、スクリプトをブロックする拡張機能を無効にするか、別のブラウザーまたは別のネットワークをお試しください。',
  needsScript: 'このページがウォレットと通信するにはJavaScriptが必要です。',
  oneMoment: '少々お待ちください',
  tooMany: 'お使いのネットワークから1分間に多くのリクエストがありました。',
  unavailable: '現在、サービスはデータベースに接続できません。',
  loadAgainIn: '{seconds}秒後にページを再読み込みしてください。',
};

export const dashboardWords: PageWords = {
  title: 'Dashboard',
  fact: 'Nothing was changed: payments and webhooks continue without this page.',
};

/** The languages are the same as in src/pages/words/languages.ts. */
export const siteWords = { en, de, es, fr, pt, ja } as const;

export type SiteLanguage = keyof typeof siteWords;

export const isLanguage = (code: string): code is SiteLanguage => Object.hasOwn(siteWords, code);

/**
 * Returns the language with the highest weight in the Accept-Language header. Ignores languages
 * that the pages do not have. Returns English if no language is left.
 */
export function languageOf(request: FastifyRequest): SiteLanguage {
  return tagsOf(request).map(codeOf).find(isLanguage) ?? 'en';
}

/** Returns the browser's variant of the language, such as en-GB, or the language itself. */
export function localeOf(request: FastifyRequest, language: SiteLanguage): string {
  const tag = tagsOf(request).find((one) => codeOf(one) === language) ?? language;
  try {
    return Intl.DateTimeFormat.supportedLocalesOf(tag)[0] ?? language;
  } catch {
    return language;
  }
}

const codeOf = (tag: string) => tag.split('-', 1)[0] ?? '';

/** Returns the language tags that the browser accepts, best first. */
function tagsOf({ headers }: FastifyRequest): string[] {
  const offers = (headers['accept-language'] ?? '').split(',').map((offer) => {
    const [tag = '', ...parameters] = offer.trim().toLowerCase().split(';');
    const quality = parameters.map((one) => /^\s*q=(.*)$/.exec(one)?.[1]).find(Boolean);
    return {
      tag,
      weight: quality === undefined ? 1 : Number(quality),
    };
  });
  // sort() is stable, so languages with equal weights keep the order of the header.
  const wanted = offers.filter(({ weight }) => weight > 0).sort((a, b) => b.weight - a.weight);
  return wanted.map(({ tag }) => tag);
}
