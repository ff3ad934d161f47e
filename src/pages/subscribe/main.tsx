import { mount } from '../shared/mount.tsx';
import { SubscribePage } from './page.tsx';

const [, kind, id = ''] = location.pathname.split('/');
void mount(() => <SubscribePage kind={kind === 'checkout' ? 'checkout' : 'plan'} id={id} />, {
  isTranslated: true,
});
