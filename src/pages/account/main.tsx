import { mount } from '../shared/mount.tsx';
import { AccountPage } from './page.tsx';

mount(<AccountPage />);
