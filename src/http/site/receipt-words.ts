// Texts of the receipt page. `{...}` is a placeholder for a value.
import type { SiteLanguage } from './site-words.ts';

export interface ReceiptWords {
  number: string;
  date: string;
  seller: string;
  buyer: string;
  taxId: string;
  wallet: string;
  service: string;
  period: string;
  paid: string;
  credit: string;
  network: string;
  transaction: string;
  explorer: string;
  refund: string;
  rest: string;
  support: string;
  print: string;
  details: string;
  /** Shown beside the form if the service stores the buyer's details. Else `notKept` is shown. */
  kept: string;
  notKept: string;
  /** Shown above a receipt with details that the buyer entered but the service did not store. */
  printNow: string;
  name: string;
  address: string;
  note: string;
  save: string;
  show: string;
  tooLong: string;
  unknown: string;
  copyWhole: string;
  language: string;
}

const en: ReceiptWords = {
  number: 'Number',
  date: 'Paid on',
  seller: 'Seller',
  buyer: 'Buyer',
  taxId: 'Tax id',
  wallet: 'Wallet',
  service: 'For',
  period: 'Period',
  paid: 'Paid',
  credit: 'Paid with credit from a change of plan',
  network: 'Network',
  transaction: 'Transaction',
  explorer: 'View on explorer',
  refund: 'Refunded on {date}',
  rest: 'Paid less refunds',
  support: 'Questions',
  print: 'Print',
  details: 'Your details on this receipt',
  kept: 'The seller keeps them. They are also on your later receipts, until you change them there.',
  notKept: 'They are not stored: they are on the next page only, for you to print or save.',
  printNow: 'Print or save this page now: your details are not stored.',
  name: 'Name',
  address: 'Address',
  note: 'Further text, such as an order number',
  save: 'Save',
  show: 'Show with my details',
  tooLong: '{field}: at most {max} characters.',
  unknown: 'This receipt is not known',
  copyWhole: 'Copy the whole link, or open the receipt from “My subscriptions”.',
  language: 'Language',
};

const de: ReceiptWords = {
  number: 'Nummer',
  date: 'Bezahlt am',
  seller: 'Verkäufer',
  buyer: 'Käufer',
  taxId: 'Steuernummer oder USt-IdNr.',
  wallet: 'Wallet',
  service: 'Für',
  period: 'Zeitraum',
  paid: 'Bezahlt',
  credit: 'Bezahlt mit Guthaben aus einem Tarifwechsel',
  network: 'Netzwerk',
  transaction: 'Transaktion',
  explorer: 'Im Explorer ansehen',
  refund: 'Erstattet am {date}',
  rest: 'Bezahlt abzüglich Erstattungen',
  support: 'Fragen',
  print: 'Drucken',
  details: 'Ihre Angaben auf diesem Beleg',
  kept: 'Der Verkäufer bewahrt sie auf. Sie stehen auch auf Ihren späteren Belegen, bis Sie sie dort ändern.',
  notKept:
    'Sie werden nicht gespeichert: Sie stehen nur auf der nächsten Seite, die Sie drucken oder sichern können.',
  printNow: 'Drucken oder sichern Sie diese Seite jetzt: Ihre Angaben werden nicht gespeichert.',
  name: 'Name',
  address: 'Anschrift',
  note: 'Weiterer Text, etwa eine Bestellnummer',
  save: 'Speichern',
  show: 'Mit meinen Angaben anzeigen',
  tooLong: '{field}: höchstens {max} Zeichen.',
  unknown: 'Dieser Beleg ist nicht bekannt',
  copyWhole: 'Kopieren Sie den ganzen Link, oder öffnen Sie den Beleg unter „Meine Abos“.',
  language: 'Sprache',
};

const es: ReceiptWords = {
  number: 'Número',
  date: 'Pagado el',
  seller: 'Vendedor',
  buyer: 'Comprador',
  taxId: 'Identificación fiscal',
  wallet: 'Billetera',
  service: 'Por',
  period: 'Período',
  paid: 'Pagado',
  credit: 'Pagado con el crédito de un cambio de plan',
  network: 'Red',
  transaction: 'Transacción',
  explorer: 'Ver en el explorador',
  refund: 'Reembolsado el {date}',
  rest: 'Pagado menos reembolsos',
  support: 'Preguntas',
  print: 'Imprimir',
  details: 'Sus datos en este recibo',
  kept: 'El vendedor los conserva. También figuran en sus recibos posteriores, hasta que los cambie allí.',
  notKept: 'No se guardan: figuran solo en la página siguiente, para que la imprima o la guarde.',
  printNow: 'Imprima o guarde esta página ahora: sus datos no se guardan.',
  name: 'Nombre',
  address: 'Dirección',
  note: 'Otro texto, como un número de pedido',
  save: 'Guardar',
  show: 'Mostrar con mis datos',
  tooLong: '{field}: como máximo {max} caracteres.',
  unknown: 'Este recibo no se conoce',
  copyWhole: 'Copie el enlace completo o abra el recibo desde «Mis suscripciones».',
  language: 'Idioma',
};

const fr: ReceiptWords = {
  number: 'Numéro',
  date: 'Payé le',
  seller: 'Vendeur',
  buyer: 'Acheteur',
  taxId: 'Numéro fiscal',
  wallet: 'Portefeuille',
  service: 'Pour',
  period: 'Période',
  paid: 'Payé',
  credit: 'Payé avec le crédit d’un changement de formule',
  network: 'Réseau',
  transaction: 'Transaction',
  explorer: 'Voir dans l’explorateur',
  refund: 'Remboursé le {date}',
  rest: 'Payé moins les remboursements',
  support: 'Questions',
  print: 'Imprimer',
  details: 'Vos coordonnées sur ce reçu',
  kept: 'Le vendeur les conserve. Elles figurent aussi sur vos reçus suivants, jusqu’à ce que vous les y modifiiez.',
  notKept:
    'Elles ne sont pas enregistrées : elles figurent seulement sur la page suivante, à imprimer ou à enregistrer.',
  printNow:
    'Imprimez ou enregistrez cette page maintenant : vos coordonnées ne sont pas conservées.',
  name: 'Nom',
  address: 'Adresse',
  note: 'Autre texte, par exemple un numéro de commande',
  save: 'Enregistrer',
  show: 'Afficher avec mes coordonnées',
  tooLong: '{field} : {max} caractères au plus.',
  unknown: 'Ce reçu n’est pas connu',
  copyWhole: 'Copiez le lien en entier, ou ouvrez le reçu depuis « Mes abonnements ».',
  language: 'Langue',
};

const pt: ReceiptWords = {
  number: 'Número',
  date: 'Pago em',
  seller: 'Vendedor',
  buyer: 'Comprador',
  taxId: 'Número fiscal',
  wallet: 'Carteira',
  service: 'Referente a',
  period: 'Período',
  paid: 'Pago',
  credit: 'Pago com crédito de uma mudança de plano',
  network: 'Rede',
  transaction: 'Transação',
  explorer: 'Ver no explorador',
  refund: 'Reembolsado em {date}',
  rest: 'Pago menos reembolsos',
  support: 'Perguntas',
  print: 'Imprimir',
  details: 'Seus dados neste recibo',
  kept: 'O vendedor os guarda. Eles também aparecem nos seus recibos seguintes, até que você os altere lá.',
  notKept:
    'Eles não são guardados: aparecem apenas na próxima página, para você imprimir ou salvar.',
  printNow: 'Imprima ou salve esta página agora: seus dados não são guardados.',
  name: 'Nome',
  address: 'Endereço',
  note: 'Outro texto, como um número de pedido',
  save: 'Salvar',
  show: 'Mostrar com meus dados',
  tooLong: '{field}: no máximo {max} caracteres.',
  unknown: 'Este recibo não é conhecido',
  copyWhole: 'Copie o link inteiro ou abra o recibo em “Minhas assinaturas”.',
  language: 'Idioma',
};

const ja: ReceiptWords = {
  number: '番号',
  date: '支払日時',
  seller: '販売者',
  buyer: '購入者',
  taxId: '税務番号',
  wallet: 'ウォレット',
  service: '内容',
  period: '対象期間',
  paid: '支払額',
  credit: 'プラン変更による残額で支払い',
  network: 'ネットワーク',
  transaction: 'トランザクション',
  explorer: 'エクスプローラーで見る',
  refund: '{date}に返金',
  rest: '返金後の支払額',
  support: 'お問い合わせ',
  print: '印刷',
  details: 'この領収書に載せるお客様の情報',
  kept: '販売者が保存します。変更するまで、以後の領収書にも記載されます。',
  notKept: '保存されません。次のページにだけ表示されますので、印刷または保存してください。',
  printNow: 'このページを今すぐ印刷または保存してください。入力した情報は保存されません。',
  name: '氏名・名称',
  address: '住所',
  note: 'その他の記載（注文番号など）',
  save: '保存',
  show: '自分の情報を付けて表示',
  tooLong: '{field}：{max}文字以内で入力してください。',
  unknown: 'この領収書は見つかりません',
  copyWhole: 'リンク全体をコピーするか、「購読の管理」から領収書を開いてください。',
  language: '言語',
};

export const receiptWords: Readonly<Record<SiteLanguage, ReceiptWords>> = {
  en,
  de,
  es,
  fr,
  pt,
  ja,
};

/** The languages' own names, in the order of src/pages/words/languages.ts. */
export const languageNames: Readonly<Record<SiteLanguage, string>> = {
  en: 'English',
  de: 'Deutsch',
  es: 'Español',
  fr: 'Français',
  pt: 'Português',
  ja: '日本語',
};
