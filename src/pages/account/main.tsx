import { mount } from '../shared/mount.tsx';
import { AccountPage } from './page.tsx';

void mount(() => <AccountPage />, { isTranslated: true });
